"""``noetl run``: a playbook to its end, durably."""

from __future__ import annotations

import asyncio
import gc
import json
import signal
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import NoReturn

import click
import yaml

from noetl.adapters.plugins.enabled import Plugins
from noetl.commands.hints import warn_of_new_names
from noetl.commands.printing import count_of, count_words, format_diagnostic
from noetl.commands.progress import Progress, choose_progress
from noetl.commands.reading import SourceFile, folder_of, read_file
from noetl.commands.writing import check_target
from noetl.config import SLOTS, read_extensions, read_plugins, read_settings
from noetl.dialects import load
from noetl.dsl.durations import parse_duration
from noetl.dsl.load import Loaded
from noetl.dsl.merge import deep_merge
from noetl.embedded import Embedded, open_free_log
from noetl.errors import ConfigError
from noetl.home import Home
from noetl.types import JSON

REFUSALS = (
    "playbook.invalid",
    "playbook.not_found",
    "keychain.unresolved",
    "ref.not_owner",
)
EXIT_CODES = {"completed": 0, "failed": 1, "cancelled": 1, "paused": 130}
RESULT_LINES = 20
TEST_FILES = (".test.yaml", ".test.yml")


@click.command("run")
@click.argument("file", metavar="FILE")
@click.option("--set", "settings", multiple=True, metavar="A.B=V", help="Set an input.")
@click.option("--workload", metavar="FILE", help="Inputs, as YAML or JSON.")
@click.option(
    "--playbooks",
    multiple=True,
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False),
    help="Where child playbooks are looked for (FILE's folder).",
)
@click.option("--extensions", metavar="NAMES", help="Dialects: legacy,classic.")
@click.option("--timeout", metavar="D", help="Cancel it after so long: 30s, 5m.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option("--html", metavar="FILE", help="Write a page about it, in the end.")
@click.option("--no-progress", is_flag=True, help="Say nothing while it runs.")
def command(
    file: str,
    settings: tuple[str, ...],
    workload: str | None,
    playbooks: tuple[str, ...],
    extensions: str | None,
    timeout: str | None,
    as_json: bool,
    html: str | None,
    no_progress: bool,
) -> None:
    """Run a playbook to its end, durably: every step is in the log.

    Exit code: 0 completed, 1 failed or cancelled, 2 the playbook or the call is
    wrong, 130 interrupted (noetl resume goes on).

    \b
    Examples:
      noetl run playbook.yaml
      noetl run playbook.yaml --set region=eu --set limits.rows=100
      noetl run playbook.yaml --html report.html
    """
    if html == "-":
        raise click.UsageError("--html -: name a file; run prints how it ended itself")
    if html is not None:
        check_target("--html", html)
    source = read_file(file)
    enabled = read_extensions(extensions)
    plugins = read_plugins()
    loaded = load(source.content, plugins.kinds, enabled)
    inputs = read_inputs(workload, settings)
    deadline = read_duration(timeout)
    if loaded.playbook is None:
        runtime = _runtime(file, (), enabled, plugins)
        document = asyncio.run(_record(runtime, loaded, source))
        _report(document, html)
        _refuse(source, loaded, document, as_json=as_json)
    warn_of_new_names(inputs, loaded.playbook.workload, "--set", "workload")
    progress = choose_progress(quiet=no_progress, as_json=as_json)
    runtime = _runtime(file, playbooks, enabled, plugins)
    document = asyncio.run(
        _execute(runtime, loaded, source.content, inputs, progress, deadline)
    )
    _report(document, html)
    finish(document, as_json=as_json)


def _report(document: dict[str, JSON], file: str | None) -> None:
    if file is not None:
        from noetl.commands.reporting import make_report, save_report

        _, page = asyncio.run(make_report(Home.of(), document["execution_id"]))
        save_report(page, file)


def _runtime(
    file: str,
    playbooks: Sequence[str],
    extensions: frozenset[str],
    plugins: Plugins,
) -> Callable[[], Embedded]:
    folder = folder_of(file)
    settings = read_settings()
    home = Home.of()
    return lambda: Embedded(
        home,
        open_free_log(home),
        folder,
        playbooks=playbooks,
        extensions=extensions,
        slots=settings[SLOTS],
        plugins=plugins,
    )


async def _execute(
    make: Callable[[], Embedded],
    loaded: Loaded,
    source: bytes,
    inputs: dict[str, JSON],
    progress: Progress,
    deadline: float | None,
) -> dict[str, JSON]:
    runtime = make()
    try:
        runtime.watch(progress.take)
        with progress, interruptible(runtime):
            if not await runtime.start(loaded, source, inputs, deadline):
                return runtime.document()
            return await drive(runtime)
    finally:
        await runtime.close()


async def drive(runtime: Embedded) -> dict[str, JSON]:
    """Run on to the end."""
    gc.enable()  # a run may live for days
    await runtime.finish()
    return runtime.document()


@contextmanager
def interruptible(runtime: Embedded) -> Iterator[None]:
    """The first interrupt pauses, the second leaves at once, and so does SIGTERM."""
    loop = asyncio.get_running_loop()

    def interrupt() -> None:
        if not runtime.interrupt():
            text = "pausing: what runs is finished first; Ctrl-C again leaves at once"
            click.echo(text, err=True)

    loop.add_signal_handler(signal.SIGINT, interrupt)
    loop.add_signal_handler(signal.SIGTERM, runtime.leave)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        loop.remove_signal_handler(signal.SIGTERM)


def read_inputs(file: str | None, settings: Sequence[str]) -> dict[str, JSON]:
    """``--workload`` first, then each ``--set`` over it."""
    inputs: JSON = {}
    if file is not None:
        inputs = _read_yaml(read_file(file).content, f"--workload {file}")
        if not isinstance(inputs, Mapping):
            raise ConfigError(f"--workload {file}: a mapping is needed")
    for setting in settings:
        name, value = read_setting("--set", setting)
        for part in reversed(name.split(".")):
            value = {part: value}
        inputs = deep_merge(inputs, value)
    return dict(inputs)


def read_setting(option: str, setting: str) -> tuple[str, JSON]:
    """``a.b=v``: the name, and the value as YAML reads it."""
    name, equals, text = setting.partition("=")
    if not equals or not name or "" in name.split("."):
        raise ConfigError(f"{option} {setting}: write it as name=value")
    return name, _read_yaml(text.encode(), f"{option} {name}")


def _read_yaml(text: bytes, origin: str) -> JSON:
    from noetl.dsl.diagnostics import Report
    from noetl.dsl.source import read_source

    if not text.strip():
        return ""
    report = Report()
    node = read_source(text, report)
    problems = [found for found in report if found.severity == "error"]
    if node is None or problems:
        raise ConfigError(f"{origin}: {problems[0].message}")
    return node.plain()


def read_duration(text: str | None) -> float | None:
    if text is None:
        return None
    try:
        return parse_duration(text)
    except ValueError as error:
        raise ConfigError(f"--timeout: {error}") from None


async def _record(
    make: Callable[[], Embedded], loaded: Loaded, source: SourceFile
) -> dict[str, JSON]:
    """The request is in the log, too: who asked for what, and why not (S-42)."""
    runtime = make()
    try:
        await runtime.refuse(loaded, source.content, source.name)
        return runtime.document()
    finally:
        await runtime.close()


def _refuse(
    source: SourceFile, loaded: Loaded, document: dict[str, JSON], *, as_json: bool
) -> NoReturn:
    """An invalid playbook does not run; say why, as validate does."""
    if as_json:
        click.echo(json.dumps(document, ensure_ascii=False))
        sys.exit(2)
    for found in loaded.diagnostics:
        click.echo(format_diagnostic(found, source.name, source.lines), err=True)
    click.echo(f"{source.name}: not run: {count_words(loaded.diagnostics)}", err=True)
    if source.name.endswith(TEST_FILES):
        click.echo(f"  it looks like a test: noetl test {source.name}", err=True)
    sys.exit(2)


def finish(document: dict[str, JSON], *, as_json: bool) -> NoReturn:
    """Print the end of an execution and leave with its exit code."""
    status = document["status"]
    if as_json:
        click.echo(json.dumps(document, ensure_ascii=False))
    else:
        print_end(document)
    sys.exit(2 if _is_refused(document) else EXIT_CODES.get(status, 130))


def _is_refused(document: dict[str, JSON]) -> bool:
    """Whether nothing was started: the call is to blame, not the execution."""
    kind = (document["error"] or {}).get("kind")
    return not document["steps"] and kind in REFUSALS


def print_end(document: dict[str, JSON]) -> None:
    """The last lines about an execution: status, error, result, how to go on."""
    status = document["status"]
    colour = {"completed": "green", "paused": "yellow"}.get(status, "red")
    seconds = (document["duration_ms"] or 0) / 1000
    kept = sum(step["kept"] for step in document["steps"])
    steps = count_of(len(document["steps"]) - kept, "step")
    head = click.style(status, fg=colour, bold=True)
    more = f", {kept:,} kept" if kept else ""
    click.echo(f"{head}: {steps} in {seconds:.2f} s{more} ({document['execution_id']})")
    if document["error"]:
        error = document["error"]
        where = f" in step '{error['step']}'" if error.get("step") else ""
        click.echo(f"  {error['kind']}{where}: {error['message']}")
    if document["result"] is not None:
        _print_result(document)
    if status in ("paused", "quarantined"):
        click.echo(f"  go on with: noetl resume {document['execution_id']}")


def _print_result(document: dict[str, JSON]) -> None:
    """All of it, but not so that a terminal loses what stood there before."""
    text = yaml.safe_dump(document["result"], sort_keys=False, allow_unicode=True)
    lines = text.removesuffix("...\n").splitlines()
    if len(lines) == 1:
        click.echo(f"result: {lines[0]}")
        return
    shown = lines[:RESULT_LINES] if sys.stdout.isatty() else lines
    click.echo("\n".join(["result:", *shown]))
    if len(shown) < len(lines):
        more = f"… {len(lines) - len(shown):,} more lines"
        click.echo(f"{more}: noetl show {document['execution_id']} --json")
