"""``noetl run``: run a playbook to its end, durably."""

from __future__ import annotations

import asyncio
import gc
import json
import signal
import sys
from collections.abc import (
    Callable,
    Collection,
    Iterator,
    Mapping,
    Sequence,
)
from contextlib import contextmanager
from functools import partial
from typing import NoReturn

import click
from msgspec.structs import asdict

from noetl.adapters.plugins.enabled import Plugins
from noetl.adapters.processes.code_inspection import inspect_code
from noetl.commands.files.atomic_write import check_target
from noetl.commands.files.playbook_files import (
    SourceFile,
    folder_of,
    read_file,
    read_inputs,
)
from noetl.commands.output import value_text
from noetl.commands.output.diagnostics import (
    add_places,
    count_of,
    count_words,
    format_diagnostic,
    hints_option,
    message_of,
    print_findings,
    print_place,
    print_warnings,
)
from noetl.commands.output.endings import (
    fail_on_option,
    has_endings,
    is_unwanted,
    next_commands,
    print_endings,
)
from noetl.commands.output.execution_table import INTERRUPTED
from noetl.commands.output.input_help import HelpWithInputs
from noetl.commands.output.progress import Progress, choose_progress
from noetl.commands.settings import label_option, pass_settings, read_caller
from noetl.config import Settings, read_extensions, read_plugins
from noetl.dialects import load
from noetl.dsl.labels import read_labels
from noetl.dsl.load import Loaded
from noetl.dsl.node import shorten
from noetl.dsl.playbook_inputs import find_warnings
from noetl.dsl.times import parse_duration
from noetl.embedded import Embedded, open_free_log
from noetl.errors import ConfigError
from noetl.local.home import Home
from noetl.report.format import duration
from noetl.report.places import Source
from noetl.telemetry.trace_context import TraceParent
from noetl.types import JSON

REFUSALS = (
    "playbook.invalid",
    "playbook.not_found",
    "inputs.invalid",
    "keychain.unresolved",
    "ref.not_owner",
)
EXIT_CODES = {"completed": 0, "failed": 1, "cancelled": 1, "paused": 130}
RESULT_LINES = 20
TEST_FILES = (".test.yaml", ".test.yml")


@click.command("run", cls=HelpWithInputs)
@click.argument("file", metavar="FILE")
@click.option("--set", "sets", multiple=True, metavar="A.B=V", help="Set an input.")
@click.option("--workload", metavar="FILE", help="Inputs, as YAML or JSON.")
@click.option(
    "--playbooks",
    multiple=True,
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False),
    help="The folder of child playbooks (default: FILE's folder).",
)
@click.option("--extensions", metavar="NAMES", help="Dialects: legacy,classic.")
@label_option("Label the execution.")
@click.option("--timeout", metavar="D", help="Cancel after this time: 30s, 5m.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option("--html", metavar="FILE", help="Write an HTML report at the end.")
@fail_on_option
@hints_option
@click.option("--ui", is_flag=True, help="Open the live page of this run.")
@click.option("--no-progress", is_flag=True, help="Print no progress.")
@click.option("--no-logs", is_flag=True, help="Do not print what tasks print.")
@pass_settings
def command(
    settings: Settings,
    file: str,
    sets: tuple[str, ...],
    workload: str | None,
    playbooks: tuple[str, ...],
    extensions: str | None,
    labels: tuple[str, ...],
    timeout: str | None,
    as_json: bool,
    html: str | None,
    fail_on: frozenset[str],
    hints: bool,
    ui: bool,
    no_progress: bool,
    no_logs: bool,
) -> None:
    """Run a playbook to its end, durably: every step is in the log.

    Exit code: 0 completed, 1 failed or cancelled, or completed with something that
    --fail-on names, 2 the playbook or the call is wrong, 130 interrupted (continue with
    noetl resume).

    \b
    Examples:
      noetl run playbook.yaml
      noetl run playbook.yaml --set region=eu --set limits.rows=100
      noetl run playbook.yaml --html report.html
      noetl run playbook.yaml --help   (lists its inputs)

    With the variable TRACEPARENT (W3C) the execution belongs to that trace.
    """
    if html == "-":
        raise click.UsageError("--html -: name a file; run prints to standard output")
    if html is not None:
        check_target("--html", html)
    source = read_file(file)
    enabled = read_extensions(extensions, settings)
    plugins = read_plugins(settings)
    loaded = load(source.content, plugins.kinds, enabled, inspect=inspect_code)
    inputs = read_inputs(workload, sets)
    deadline = read_duration(timeout)
    if loaded.playbook is None:
        runtime = _runtime(settings, file, (), enabled, plugins)
        document = asyncio.run(_record(runtime, loaded, source))
        _report(settings, document, html)
        _refuse(source, loaded, document, as_json=as_json)
    if not as_json:
        print_findings(loaded.diagnostics, source.name, source.lines, hints=hints)
    for name, message in find_warnings(loaded.playbook, inputs):
        click.echo(f"warning: --set {shorten(name)}: {message}", err=True)
    progress = choose_progress(quiet=no_progress, as_json=as_json, logs=not no_logs)
    runtime = _runtime(settings, file, playbooks, enabled, plugins)
    document = asyncio.run(
        _execute(
            runtime,
            loaded,
            source.content,
            inputs,
            progress,
            deadline,
            read_labels(labels),
            read_caller(),
            partial(_show_page, settings) if ui else None,
        )
    )
    _report(settings, document, html)
    text = source.content.decode("utf-8-sig", "replace")
    add_places(document, Source(loaded.playbook, text, source.name))
    if loaded.diagnostics:
        document["diagnostics"] = [asdict(found) for found in loaded.diagnostics]
    finish(document, as_json=as_json, fail_on=fail_on)


def _report(settings: Settings, document: dict[str, JSON], file: str | None) -> None:
    if file is not None:
        from noetl.commands.output.html_report import make_report, save_report

        _, page = asyncio.run(
            make_report(Home.of(settings), settings, document["execution_id"])
        )
        save_report(page, file)


def _runtime(
    settings: Settings,
    file: str,
    playbooks: Sequence[str],
    extensions: frozenset[str],
    plugins: Plugins,
) -> Callable[[], Embedded]:
    folder = folder_of(file)
    home = Home.of(settings)
    return lambda: Embedded(
        home,
        open_free_log(home),
        folder,
        settings,
        playbooks=playbooks,
        extensions=extensions,
        plugins=plugins,
    )


async def _execute(
    make: Callable[[], Embedded],
    loaded: Loaded,
    source: bytes,
    inputs: dict[str, JSON],
    progress: Progress,
    deadline: float | None,
    labels: Mapping[str, str],
    trace: TraceParent | None,
    show: Callable[[str], None] | None,
) -> dict[str, JSON]:
    runtime = make()
    try:
        runtime.watch(progress.take)
        show_logs(runtime, progress)
        progress.watch_slots(runtime.slot_use)
        with progress, interruptible(runtime, progress):
            accepted = await runtime.start(
                loaded, source, inputs, deadline, labels, trace
            )
            if not accepted:
                return runtime.document()
            if show is not None:
                await asyncio.to_thread(show, runtime.execution_id)
            document = await drive(runtime)
        print_warnings(runtime.child_warnings)
        return document
    finally:
        await runtime.close()


def _show_page(settings: Settings, execution_id: str) -> None:
    from noetl.commands.remote.web_page import show_page

    show_page(settings, f"/executions/{execution_id}")


def show_logs(runtime: Embedded, progress: Progress) -> None:
    """Show the lines that tasks print, as they are stored."""
    if progress.shows_logs:
        from noetl.commands.output.log_lines import lines_in

        runtime.watch_logs(lambda chunks: progress.print_logs(lines_in(chunks)))


async def drive(runtime: Embedded) -> dict[str, JSON]:
    """Run the execution to its end and return its document."""
    gc.enable()  # a run may take days; ``main`` has switched it off
    await runtime.finish()
    document = runtime.document()
    if document["status"] in ("running", "waiting"):  # it leaves: see interruptible
        document["interrupted"] = runtime.interruption()
    return document


@contextmanager
def interruptible(runtime: Embedded, progress: Progress) -> Iterator[None]:
    """Pause at the first interrupt; exit at the second one, or at SIGTERM."""
    loop = asyncio.get_running_loop()

    def interrupt() -> None:
        if not runtime.interrupt():
            text = "pausing: running tasks finish first; press Ctrl-C again to exit now"
            progress.say(text)

    loop.add_signal_handler(signal.SIGINT, interrupt)
    loop.add_signal_handler(signal.SIGTERM, runtime.leave)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        loop.remove_signal_handler(signal.SIGTERM)


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
    """Record the refused request with its reason in the log (S-42)."""
    runtime = make()
    try:
        await runtime.refuse(loaded, source.content, source.name)
        return runtime.document()
    finally:
        await runtime.close()


def _refuse(
    source: SourceFile, loaded: Loaded, document: dict[str, JSON], *, as_json: bool
) -> NoReturn:
    """Print the diagnostics of an invalid playbook, as validate does, and exit."""
    if as_json:
        click.echo(json.dumps(document, ensure_ascii=False))
        sys.exit(2)
    for found in loaded.diagnostics:
        click.echo(format_diagnostic(found, source.name, source.lines), err=True)
    click.echo(f"{source.name}: not run: {count_words(loaded.diagnostics)}", err=True)
    if source.name.endswith(TEST_FILES):
        click.echo(f"  it looks like a test: noetl test {source.name}", err=True)
    sys.exit(2)


def finish(
    document: dict[str, JSON], *, as_json: bool, fail_on: Collection[str] = ()
) -> NoReturn:
    """Print the end of an execution and exit with its exit code."""
    if as_json:
        click.echo(json.dumps(document, ensure_ascii=False))
    else:
        print_end(document)
    sys.exit(exit_code(document, fail_on))


def exit_code(document: dict[str, JSON], fail_on: Collection[str] = ()) -> int:
    """Return the code of the status; 1 if the execution completed and passed over
    something that ``fail_on`` names."""
    if document["status"] == "completed" and is_unwanted(document, fail_on):
        return 1
    return 2 if _is_refused(document) else EXIT_CODES.get(document["status"], 130)


def _is_refused(document: dict[str, JSON]) -> bool:
    """Return whether the call was refused and nothing was started."""
    kind = (document["error"] or {}).get("kind")
    return not document["steps"] and kind in REFUSALS


def print_end(document: dict[str, JSON]) -> None:
    """Print the last lines: status, error, result and how to continue."""
    status, gone = document["status"], document.get("interrupted")
    colour = {"completed": "green", "paused": "yellow"}.get(status, "red")
    if status == "completed" and has_endings(document):
        colour = "yellow"
    took = duration((document["duration_ms"] or 0) / 1000)
    kept = sum(step["kept"] for step in document["steps"])
    steps = count_of(len(document["steps"]) - kept, "step")
    words = INTERRUPTED if gone else status
    head = click.style(words, fg=colour, bold=True)
    more = f", {kept:,} kept" if kept else ""
    click.echo(f"{head}: {steps} in {took}{more} ({document['execution_id']})")
    if document["error"]:
        error = document["error"]
        where = f" in step '{error['step']}'" if error.get("step") else ""
        if error.get("iteration") is not None:
            where += f", iteration {error['iteration']}"
        click.echo(f"  {error['kind']}{where}: {message_of(error)}")
        print_place(error)
        if child := (error.get("details") or {}).get("execution_id"):
            click.echo(f"  the child that failed: noetl show {child}")
    print_endings(document)
    if document["result"] is not None:
        _print_result(document)
    for line in next_commands(document, refused=_is_refused(document)):
        click.echo(f"  {line}")


def _print_result(document: dict[str, JSON]) -> None:
    """Print the result, at most ``RESULT_LINES`` lines of it."""
    text = value_text(document["result"])
    lines = text.removesuffix("...\n").splitlines()
    if len(lines) == 1:
        click.echo(f"result: {lines[0]}")
        return
    shown = lines[:RESULT_LINES] if sys.stdout.isatty() else lines
    click.echo("\n".join(["result:", *shown]))
    if len(shown) < len(lines):
        more = f"… {len(lines) - len(shown):,} more lines"
        click.echo(f"{more}: noetl show {document['execution_id']} --json")
