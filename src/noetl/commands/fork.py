"""``noetl fork``: continue from any event; the rest is shared with ``noetl retry``."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, NoReturn, TypeVar

import click
import msgspec

from noetl.adapters.catalogs.files import FileCatalog, pin
from noetl.adapters.processes.code_inspection import inspect_code
from noetl.commands.files.playbook_files import (
    folder_of,
    read_file,
    read_inputs,
    read_setting,
)
from noetl.commands.local.logs import find_execution, reading
from noetl.commands.output.diagnostics import (
    count_of,
    count_words,
    format_diagnostic,
    look_for_places,
    origin_words,
    warn_of_new_names,
)
from noetl.commands.output.progress import Progress, choose_progress
from noetl.commands.remote import executions
from noetl.commands.remote.choose_server import server_of, server_option
from noetl.commands.run import (
    drive,
    finish,
    interruptible,
    read_duration,
)
from noetl.commands.settings import pass_settings
from noetl.config import Settings, read_extensions, read_plugins
from noetl.dialects import load
from noetl.embedded import Embedded, open_free_log
from noetl.errors import BlobGone, ConfigError
from noetl.local.home import Home
from noetl.runtime.forks.plan import Edits, Origin, Plan, Successor, make_plan
from noetl.runtime.forks.points import Start
from noetl.service.executions.forks import look_ahead
from noetl.types import JSON
from noetl.wiring.identifiers import new_execution_id
from noetl.wiring.result_stores import make_blobs


class Wishes(msgspec.Struct, frozen=True, kw_only=True):
    """The options of ``fork`` and ``retry``."""

    sets: tuple[str, ...] = ()
    workload: str | None = None
    set_ctx: tuple[str, ...] = ()
    playbook: str | None = None
    playbooks: tuple[str, ...] = ()
    extensions: str | None = None
    timeout: str | None = None


@asynccontextmanager
async def open_origin(
    settings: Settings, home: Home, execution: str
) -> AsyncIterator[Origin]:
    place = await find_execution(home, execution)
    plugins = read_plugins(settings)
    blobs = make_blobs(home, plugins, settings)
    async with reading(place.log) as log:
        summary = await log.summary(place.execution_id)
        [first] = await log.read(place.execution_id, limit=1)
        about, playbook = first.payload["playbook"], None
        with suppress(BlobGone, ConfigError):  # not needed with a newer playbook
            catalog = FileCatalog([], blobs, kinds=plugins.kinds)
            playbook = await catalog.pinned(about)
        yield Origin(place.execution_id, log, blobs, summary, about, playbook)


async def plan_fork(
    settings: Settings, origin: Origin, start: Start, wishes: Wishes
) -> Plan:
    """Check as much as possible before anything is written; return the plan."""
    edits = read_edits(wishes)
    newer = None
    if wishes.playbook is not None:
        newer = await _read_successor(settings, wishes, origin)
    plan = await make_plan(origin, start, edits, new_execution_id(), newer)
    point, playbook = plan.point, plan.playbook
    warn_of_new_names(
        edits.workload, [*point.state.workload, *playbook.workload], "--set", "workload"
    )
    warn_of_new_names(edits.set_ctx, point.state.ctx, "--set-ctx", "ctx")
    if point.seq < start.at:
        text = f"cannot cut at event {start.at}, inside a decision; cutting at"
        click.echo(f"{text} {point.seq}: no completed work is lost", err=True)
    return plan


def read_edits(wishes: Wishes) -> Edits:
    return Edits(
        read_inputs(wishes.workload, wishes.sets),
        dict(read_setting("--set-ctx", each) for each in wishes.set_ctx),
        read_duration(wishes.timeout),
    )


async def _read_successor(
    settings: Settings, wishes: Wishes, origin: Origin
) -> Successor:
    """Read a playbook that can continue the open work; exit if it is invalid."""
    source = read_file(wishes.playbook or "")
    loaded = load(
        source.content,
        read_plugins(settings).kinds,
        read_extensions(wishes.extensions, settings),
        inspect=inspect_code,
    )
    if loaded.playbook is None:
        for found in loaded.diagnostics:
            click.echo(format_diagnostic(found, source.name, source.lines), err=True)
        words = count_words(loaded.diagnostics)
        click.echo(f"{source.name}: not forked: {words}", err=True)
        sys.exit(2)
    folder = folder_of(source.name) or origin.about.get("folder")
    about = await pin(loaded, source.content, folder, origin.blobs)
    return Successor(loaded.playbook, about, source.name)


def print_outlook(outlook: dict[str, JSON]) -> None:
    click.echo(f"a fork of {origin_words(outlook['forked_from'])} would")
    for each in outlook["kept"]:
        times = f", {count_of(each['runs'], 'run')}" if each["runs"] > 1 else ""
        click.echo(f"  keep   {each['step']}: {each['status']}{times}")
    for each in outlook["again"]:
        click.echo(f"  resume {each['step']}: {_activity(each)}")
    for each in outlook["next"]:
        click.echo(f"  start  {each['step']}{_kept_words(each)}")
    for where, edits in (("workload", "workload"), ("ctx", "set_ctx")):
        if outlook[edits]:
            click.echo(f"  with other values in {where}: {', '.join(outlook[edits])}")
    if outlook["playbook"] is not None:
        about = outlook["playbook"]
        version = f" {about['version']}" if about["version"] else ""
        click.echo(f"  with the playbook {about['path']}{version}")
    click.echo("nothing was started")


def _kept_words(each: dict[str, JSON]) -> str:
    """Describe the iterations that a retried loop keeps."""
    counts = each.get("iterations")
    if counts is None:
        return ""
    total = count_of(counts["total"], "iteration")
    if each["changed"]:
        return f": loop.in has changed, so nothing of {total} is kept"
    return f": {counts['kept']:,} of {total} are kept, {counts['again']:,} run"


def _activity(each: dict[str, JSON]) -> str:
    counts = each["iterations"]
    if counts is None:
        if each["task"] is None:
            return "it has ended, its arcs are evaluated again"
        return f"task '{each['task']}' starts again"
    text = f"{counts['kept']:,} of {count_of(counts['total'], 'iteration')} are kept"
    if counts["again"]:
        text += f", {counts['again']:,} start again"
    return text


Command = TypeVar("Command", bound=Callable[..., Any])
Choose = Callable[[Origin], Awaitable[Start]]
"""Chooses the event to start from. Raises ``ConfigError``."""

_OPTIONS = (
    click.option(
        "--set", "sets", multiple=True, metavar="A.B=V", help="Change an input."
    ),
    click.option("--workload", metavar="FILE", help="Other inputs, as YAML or JSON."),
    click.option(
        "--set-ctx", multiple=True, metavar="A.B=V", help="Change a value of ctx."
    ),
    click.option("--playbook", metavar="FILE", help="Continue with this playbook."),
    click.option(
        "--playbooks",
        multiple=True,
        metavar="DIR",
        type=click.Path(exists=True, file_okay=False),
        help="The folder of child playbooks (default: the playbook's folder).",
    ),
    click.option("--extensions", metavar="NAMES", help="Dialects of --playbook."),
    click.option("--timeout", metavar="D", help="Cancel after this time: 30s, 5m."),
    executions.wait_option,
    server_option,
    click.option("--dry-run", is_flag=True, help="Only show what would happen."),
    click.option("--json", "as_json", is_flag=True, help="Print one JSON document."),
    click.option("--no-progress", is_flag=True, help="Print no progress."),
)


def edit_options(command: Command) -> Command:
    """Add the options that both commands have."""
    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def fork_execution(
    settings: Settings,
    execution: str,
    choose: Choose,
    verb: str,
    where: Mapping[str, JSON],
    *,
    server: str | None,
    wait: bool,
    dry_run: bool,
    as_json: bool,
    no_progress: bool,
    **wishes: Any,
) -> NoReturn:
    """Fork, run to the end, print, and exit with the exit code of ``run``; with a
    server only if ``wait``.

    ``choose`` returns the start for a local fork; ``where`` is the start for a server.
    """
    asked = Wishes(**wishes)
    progress = choose_progress(quiet=no_progress, as_json=as_json)
    client = asyncio.run(server_of(settings, server, execution))
    if client is not None:
        name = executions.whole_id(client, execution)
        body = {**_body(asked), **where, "dry_run": dry_run}
        answer = executions.ask(client, f"{name}/{verb}", body, as_json=as_json)
    if dry_run:
        if client is None:
            answer = asyncio.run(_look(settings, execution, choose, asked))
        if as_json:
            click.echo(json.dumps(answer, ensure_ascii=False))
        else:
            print_outlook(answer)
        sys.exit(0)
    if client is not None:
        executions.end(client, answer, progress, wait=wait, as_json=as_json)
    document = asyncio.run(run_fork(settings, execution, choose, asked, progress))
    look_for_places(document)
    finish(document, as_json=as_json)


def _body(wishes: Wishes) -> dict[str, JSON]:
    """Build the request body for a server.

    Raises ``ConfigError`` for options that only a home supports.
    """
    for option, given in (
        ("--playbooks", wishes.playbooks),
        ("--extensions", wishes.extensions),
    ):
        if given:
            hint = "a server has its own catalog and its own dialects"
            raise ConfigError(f"{option} cannot be used with a server: {hint}")
    edits = read_edits(wishes)
    body: dict[str, JSON] = {
        "workload": edits.workload,
        "ctx": edits.set_ctx,
        "timeout": edits.timeout,
    }
    if wishes.playbook is not None:
        body["playbook"] = read_file(wishes.playbook).content.decode("utf-8", "replace")
    return body


async def _look(
    settings: Settings, execution: str, choose: Choose, wishes: Wishes
) -> dict[str, JSON]:
    async with open_origin(settings, Home.of(settings), execution) as origin:
        plan = await plan_fork(settings, origin, await choose(origin), wishes)
        return await look_ahead(plan, origin.log, origin.blobs)


async def run_fork(
    settings: Settings,
    execution: str,
    choose: Choose,
    wishes: Wishes,
    progress: Progress,
) -> dict[str, JSON]:
    home = Home.of(settings)
    async with open_origin(settings, home, execution) as origin:
        plan = await plan_fork(settings, origin, await choose(origin), wishes)
        runtime = Embedded(
            home,
            open_free_log(home),
            plan.fork.playbook.get("folder"),
            settings,
            execution_id=plan.fork.execution_id,
            playbooks=wishes.playbooks,
            extensions=plan.playbook.extensions,
            plugins=read_plugins(settings),
        )
        try:
            runtime.watch(progress.take)
            with interruptible(runtime, progress):
                return await _go_on(runtime, plan, origin, progress)
        finally:
            await runtime.close()


async def _go_on(
    runtime: Embedded, plan: Plan, origin: Origin, progress: Progress
) -> dict[str, JSON]:
    if not await runtime.fork(plan.playbook, plan.fork, plan.point, origin.log):
        return runtime.document()
    with progress:
        async for page in runtime.history():
            kept = [event for event in page if event.seq <= plan.fork.seq]
            progress.recall(kept)
            progress.take(page[len(kept) :])
        return await drive(runtime)


@click.command("fork")
@click.argument("execution", metavar="ID")
@click.option(
    "--at",
    type=int,
    metavar="SEQ",
    required=True,
    help="The last event to keep (see noetl events ID).",
)
@edit_options
@pass_settings
def command(settings: Settings, /, execution: str, at: int, **wishes: Any) -> None:
    """Create a new execution that continues from an event of another one.

    The fork keeps the work up to the event SEQ, and continues with other inputs, other
    values of ctx or a newer playbook. Tasks that were running at that event start
    again. The original execution does not change, even if it is still running.
    The start or end of ID is enough. Output and exit codes are those of noetl run.

    \b
    Examples:
      noetl fork 019a8f --at 12
      noetl fork 019a8f --at 12 --set region=eu --set-ctx total=0
      noetl fork last --at 12 --playbook fixed.yaml --dry-run
    """

    async def choose(origin: Origin) -> Start:
        if at < 1:
            raise click.BadParameter("events count from 1", param_hint="--at")
        return Start(at)

    fork_execution(settings, execution, choose, "fork", {"at": at}, **wishes)
