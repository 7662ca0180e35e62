"""``noetl show``: the document of one execution."""

from __future__ import annotations

import asyncio
import json
import re
import time

import click
import msgspec

from noetl.commands.files.atomic_write import check_target
from noetl.commands.local.logs import (
    find_execution,
    find_interrupted,
    read_pages,
    read_summary,
)
from noetl.commands.output.diagnostics import (
    count_of,
    label_words,
    look_for_places,
    origin_words,
    queue_words,
)
from noetl.commands.output.live.rows import one_line, waiting_words
from noetl.commands.remote import executions
from noetl.commands.remote.choose_server import server_of, server_option
from noetl.commands.run import print_end
from noetl.commands.settings import pass_settings
from noetl.config import Settings
from noetl.dsl.node import printable
from noetl.engine.endings import (
    Ignored,
    NoArcFired,
    UndefinedName,
    failed_words,
    iteration_words,
)
from noetl.engine.execution_document import Document
from noetl.engine.waits.resume import WaitLine
from noetl.local.home import Home
from noetl.report.format import duration
from noetl.types import JSON

QUEUED_MS = 100.0
"""Milliseconds in the queue from which people are told of them."""
_SIGNS = {"done": "✓", "failed": "✗", "skipped": "-", "cancelled": "■"}


@click.command("show")
@click.argument("execution", metavar="ID", required=False)
@server_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option(
    "--html",
    metavar="[FILE]",
    is_flag=False,
    flag_value="",
    help="Write an HTML page instead (ID.html; - for standard output).",
)
@pass_settings
def command(
    settings: Settings,
    execution: str | None,
    server: str | None,
    as_json: bool,
    html: str | None,
) -> None:
    """Show an execution: its steps, its result, its error.

    ID is a whole id, its beginning or its end, or last, which is the default.

    With --html it writes one page that needs no other file and no network: the graph of
    the run, a timeline, the routing decision of each step, the events.

    \b
    Examples:
      noetl show
      noetl show 66a4d7c1
      noetl show last --html report.html
    """
    if execution is None:
        if html and re.fullmatch("last|[0-9a-f-]+", html):
            taken = f"--html takes '{html}' as its file; write ID before --html"
            raise click.UsageError(taken)
        execution = "last"
    if html is not None:
        if as_json:
            raise click.UsageError("--json contradicts --html")
        _write_page(settings, execution, html, server)
        return
    client = asyncio.run(server_of(settings, server, execution))
    if client is None:
        document = asyncio.run(_read(settings, execution))
    else:
        document = executions.show(client, execution)
    look_for_places(document, client)
    if as_json:
        click.echo(json.dumps(document, ensure_ascii=False))
        return
    if document["forked_from"]:
        click.echo(f"forked from {origin_words(document['forked_from'])}")
    if document.get("labels"):
        click.echo(label_words(document["labels"]))
    places = document.get("concurrency")
    if places and places["queued"]:
        click.echo(queue_words(places))
    for warning in document.get("warnings", ()):
        click.echo(f"warning: {printable(warning)}")
    lost = {
        each.step_run_id: each.words()
        for each in msgspec.convert(document["no_arc_fired"], list[NoArcFired])
    }
    read = msgspec.convert(document.get("undefined_names", []), list[UndefinedName])
    failed = (document["error"] or {}).get("step")
    for step in document["steps"]:
        run_id = step["step_run_id"]
        said = document["error"] if step["step"] == failed else None
        click.echo(_line(step, lost.get(run_id), said))
        for name in read:
            is_here = (name.step, name.step_run_id) == (step["step"], run_id or "")
            if is_here and (name.task or run_id not in lost):
                where = f"{name.task}: " if name.task else ""
                click.echo(f"    {one_line(where + name.words())}")
    for wait in msgspec.convert(document["waits"], list[WaitLine]):
        click.echo(waiting_words(wait, time.time()))
    print_end(document)


def _write_page(
    settings: Settings, execution: str, file: str, server: str | None
) -> None:
    from noetl.commands.output.html_report import (
        make_report,
        report_of_server,
        save_report,
    )

    if file:
        check_target("--html", file)
    client = asyncio.run(server_of(settings, server, execution))
    if client is None:
        made = make_report(Home.of(settings), settings, execution)
    else:
        made = report_of_server(settings, client, execution)
    execution_id, page = asyncio.run(made)
    save_report(page, file or f"{execution_id}.html")


async def _read(settings: Settings, execution: str) -> dict[str, JSON]:
    from noetl.service.executions.queries import shown

    document, place = Document(), await find_execution(Home.of(settings), execution)
    summary = await read_summary(place)
    try:
        async for page in read_pages(place):
            document.take(page)
    except Exception:
        if summary.status != "quarantined":
            raise
    found = shown(document, summary)
    gone = await find_interrupted(Home.of(settings), [summary])
    if place.execution_id in gone:
        found["interrupted"] = gone[place.execution_id]
    return found


def _line(
    step: dict[str, JSON],
    lost: str | None = None,
    said: dict[str, JSON] | None = None,
) -> str:
    """Describe a step in one line, without the error that is ``said`` at the end."""
    sign = _SIGNS.get(step["status"], "…")
    ignored = step.get("ignored")
    kinds = step.get("error_kinds")
    if (ignored or lost or kinds) and step["status"] == "done":
        sign = "!"
    spent = step["duration_ms"]
    queued = step.get("queued_ms") or 0.0
    is_late = queued >= QUEUED_MS
    if is_late and spent is not None:
        spent = max(0.0, spent - queued)
    took = "" if spent is None else f" in {duration(spent / 1000)}"
    took += f", after {duration(queued / 1000)} in the queue" if is_late else ""
    text = f"{sign} {step['step']}: {step['status']}{took}"
    if step["attempts"] > 1:
        each = "up to " if step["iterations"] else ""
        text += f", {each}{step['attempts']} attempts"
    if step["iterations"]:
        counts = step["iterations"]
        text += f", {counts['done']:,} of {count_of(counts['total'], 'iteration')}"
        if counts["failed"]:
            text += f", {counts['failed']:,} failed"
        if counts.get("cancelled"):
            text += f", {counts['cancelled']:,} cancelled"
        if kinds and not step["error"]:
            numbers = counts["failed"], counts["total"]
            words = failed_words(*numbers, kinds, step["errors"])
            text += f": {one_line(words.partition(': ')[2])}"
    if step["kept"]:
        text += ", kept"
    if ignored:
        text += f", {one_line(msgspec.convert(ignored, Ignored).words())}"
    if lost:
        text += f", {one_line(lost)}"
    is_said = said is not None and step["error"] is not None
    if is_said and said["message"] == step["error"].get("message"):  # type: ignore[index]
        return text
    if step["error"]:
        text += f": {iteration_words(step['error'])}{step['error'].get('message', '')}"
    return text
