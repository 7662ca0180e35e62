"""``noetl config``: the effective settings and their origins."""

from __future__ import annotations

import json

import click

from noetl.commands.settings import pass_settings
from noetl.config import (
    FILES_ROOTS,
    HOME,
    ISOLATION,
    LIMITS_MEMORY,
    NETWORK_PRIVATE,
    POOLS_CODE,
    Settings,
    Value,
    ceilings_of,
    host_policy,
    strays,
)
from noetl.config.host import Role, memory_words
from noetl.config.setting import Origin
from noetl.dsl.node import printable
from noetl.local.home import Home
from noetl.local.process_files import find_server
from noetl.types import JSON


@click.command("config")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@pass_settings
def command(settings: Settings, as_json: bool) -> None:
    """Print the effective settings and where each value comes from.

    The environment (NOETL_SLOTS) has priority over the configuration file (slots), and
    the file over the default. The file is --config FILE, $NOETL_CONFIG, or config.toml
    in the home. Secrets are masked. Defaults of the tools' access to files and networks
    are those of the server that runs under this home; without one, of `noetl run`.

    \b
    Examples:
      noetl config
      noetl --config staging.toml config --json
    """
    settings = _effective(settings)
    ignored = [*strays(), *_cautions(settings)]
    if as_json:
        click.echo(json.dumps(_document(settings, ignored), ensure_ascii=False))
        return
    rows = [(value.setting.name, _text(value), _origin(value)) for value in settings]
    widths = [max(len(row[column]) for row in rows) for column in (0, 1)]
    for name, text, origin in rows:
        shown = click.style(origin, dim=True)
        click.echo(f"{name:<{widths[0]}}  {text:<{widths[1]}}  {shown}")
    for line in ignored:
        click.echo(click.style(f"warning: {line}", fg="yellow"), err=True)


def _effective(settings: Settings) -> Settings:
    """Fill in the defaults of the role that runs under this home."""
    server = find_server(Home.of(settings).server)
    role: Role = "embedded"
    origin: Origin = "default"
    if server is not None:
        role, origin = "server", "server"
        if server.personal is not None:
            role, origin = "personal", "noetl up"
    folder = None if server is None else server.personal
    policy = host_policy(settings, settings[HOME], role, folder)
    home = () if policy.home is None else (policy.home,)
    return settings.filled(
        {
            FILES_ROOTS.name: Value(FILES_ROOTS, (*policy.roots, *home), origin),
            NETWORK_PRIVATE.name: Value(NETWORK_PRIVATE, policy.private, origin),
            LIMITS_MEMORY.name: Value(
                LIMITS_MEMORY, memory_words(policy.memory), origin
            ),
            POOLS_CODE.name: Value(
                POOLS_CODE, ceilings_of(settings, role).code_pools, origin
            ),
        }
    )


def _cautions(settings: Settings) -> list[str]:
    """Return warnings about protections that the operator has switched off."""
    if settings[ISOLATION] != "none":
        return []
    caution = "isolation is none: python, script, shell and duckdb run without a "
    return [f"{caution}sandbox, with the access of the server or worker itself"]


def _document(settings: Settings, ignored: list[str]) -> dict[str, JSON]:
    return {
        "file": None if settings.file is None else str(settings.file),
        "settings": {
            value.setting.name: {
                "value": value.shown(),
                "origin": value.origin,
                "place": value.place,
                "secret": value.setting.secret,
            }
            for value in settings
        },
        "warnings": ignored,
    }


def _text(value: Value) -> str:
    shown = value.shown()
    if isinstance(shown, list):
        shown = ",".join(shown)
    return "-" if shown in (None, "", {}, []) else printable(str(shown))


def _origin(value: Value) -> str:
    return f"{value.origin} {value.place}" if value.place else value.origin
