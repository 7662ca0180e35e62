"""``noetl doctor``: check this machine and this home, with a cure per problem."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator

import click
import msgspec

from noetl.adapters.host import Isolation
from noetl.commands.doctor_checks import Finding, worst
from noetl.commands.doctor_checks.home import (
    check_database,
    check_home,
    check_keychain,
    check_logs,
    check_schedules,
    check_services,
)
from noetl.commands.doctor_checks.machine import (
    check_extras,
    check_machine,
    check_plugins,
    check_processes,
)
from noetl.config import (
    DATABASE,
    HOME,
    ISOLATION,
    PLUGINS,
    POOLS_CODE,
    read_settings,
    strays,
)
from noetl.dsl.node import printable
from noetl.errors import ConfigError
from noetl.local.home import Home

_COLOURS = {"ok": "green", "warning": "yellow", "problem": "red"}


@click.command("doctor")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(as_json: bool) -> None:
    """Check this machine and this home, and show how to fix problems.

    Nothing is changed. Exit code: 0 no problem (warnings are possible), 1 otherwise.

    \b
    Example:
      noetl doctor
    """
    findings = list(examine())
    status = worst(findings)
    if as_json:
        document = {"status": status, "checks": msgspec.to_builtins(findings)}
        click.echo(json.dumps(document, ensure_ascii=False))
    else:
        width = max(len(found.check) for found in findings)
        for found in findings:
            click.echo(_line(found, width))
    sys.exit(1 if status == "problem" else 0)


def examine() -> Iterator[Finding]:
    """Run all checks; a check that crashes does not stop the others."""
    home: Home | None = None
    enabled: frozenset[str] = frozenset()
    database: str | None = None
    isolation: Isolation = "auto"
    pools: frozenset[str] | None = None
    try:
        settings = read_settings()
        home, enabled = Home(settings[HOME]), settings[PLUGINS]
        database, isolation = settings[DATABASE], settings[ISOLATION]
        pools = settings[POOLS_CODE]
        yield Finding("settings", "ok", str(settings.file or "no configuration file"))
    except ConfigError as error:
        cure = "correct it, then run noetl doctor again: the home was not checked"
        yield Finding("settings", "problem", str(error), cure)
    for line in strays():
        yield Finding("settings", "warning", line, "correct the variable's name")
    yield from _guarded("machine", check_machine)
    if home is not None:
        mine, now = home, time.time()
        yield from _guarded("home", lambda: check_home(mine))
        yield from _guarded("logs", lambda: check_logs(mine, now))
        yield from _guarded("services", lambda: check_services(mine, settings))
        yield from _guarded("schedules", lambda: check_schedules(mine))
    yield from _guarded("database", lambda: check_database(database, home))
    if home is not None:
        yield from _guarded("keychain", lambda: check_keychain(mine, settings))
    yield from _guarded(
        "python child", lambda: asyncio.run(check_processes(isolation, pools))
    )
    yield from _guarded("extras", check_extras)
    yield from _guarded("plug-ins", lambda: check_plugins(enabled))


def _guarded(name: str, check: Callable[[], Iterable[Finding]]) -> Iterator[Finding]:
    try:
        yield from check()
    except Exception as error:
        # A failing check becomes a finding, so that the report continues.
        message = f"could not be checked: {type(error).__name__}: {error}"
        yield Finding(name, "problem", message)


def _line(found: Finding, width: int) -> str:
    status = click.style(f"{found.status:<8}", fg=_COLOURS[found.status])
    text = f"{status} {found.check:<{width}}  {printable(found.message)}"
    if found.cure:
        text += f"\n{'':8} {'':{width}}  → {printable(found.cure)}"
    return text
