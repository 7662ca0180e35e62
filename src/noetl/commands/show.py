"""``noetl show``: one execution as a document."""

from __future__ import annotations

import asyncio
import json
import time

import click
import msgspec

from noetl.commands import remote
from noetl.commands.live.words import waiting_words
from noetl.commands.logs import find_execution, read_pages, read_summary
from noetl.commands.printing import count_of, origin_words, queue_words
from noetl.commands.run import print_end
from noetl.commands.targets import server_of, server_option
from noetl.commands.writing import check_target
from noetl.engine.document import Document
from noetl.engine.waits import WaitLine
from noetl.home import Home
from noetl.types import JSON

_SIGNS = {"done": "✓", "failed": "✗", "skipped": "-"}


@click.command("show")
@click.argument("execution", metavar="ID", required=False)
@server_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@click.option(
    "--html",
    metavar="[FILE]",
    is_flag=False,
    flag_value="",
    help="Write a page instead (ID.html; - for standard output).",
)
def command(
    execution: str | None, server: str | None, as_json: bool, html: str | None
) -> None:
    """Show an execution: its steps, its result, its error. A prefix of ID will do.

    With --html it becomes one page that needs no other file and no network: the graph
    with what ran, a timeline, why each step went on as it did, the events.

    \b
    Examples:
      noetl show 019a8f
      noetl show last --html report.html
    """
    if execution is None:
        taken = f"; --html took {html} for its file, so write ID first" if html else ""
        raise click.UsageError(f"Missing argument 'ID'{taken}.")
    if html is not None:
        if as_json:
            raise click.UsageError("--json contradicts --html")
        _write_page(execution, html, server)
        return
    client = asyncio.run(server_of(server, execution))
    if client is None:
        document = asyncio.run(_read(execution))
    else:
        document = remote.show(client, execution)
    if as_json:
        click.echo(json.dumps(document, ensure_ascii=False))
        return
    if document["forked_from"]:
        click.echo(f"forked from {origin_words(document['forked_from'])}")
    places = document.get("concurrency")
    if places and places["queued"]:
        click.echo(queue_words(places))
    for step in document["steps"]:
        click.echo(_line(step))
    for wait in msgspec.convert(document["waits"], list[WaitLine]):
        click.echo(waiting_words(wait, time.time()))
    print_end(document)


def _write_page(execution: str, file: str, server: str | None) -> None:
    from noetl.commands.reporting import make_report, report_of_server, save_report

    if file:
        check_target("--html", file)
    client = asyncio.run(server_of(server, execution))
    if client is None:
        made = make_report(Home.of(), execution)
    else:
        made = report_of_server(client, execution)
    execution_id, page = asyncio.run(made)
    save_report(page, file or f"{execution_id}.html")


async def _read(execution: str) -> dict[str, JSON]:
    from noetl.service.looking import shown

    document, place = Document(), await find_execution(Home.of(), execution)
    summary = await read_summary(place)
    try:
        async for page in read_pages(place):
            document.take(page)
    except Exception:
        if summary.status != "quarantined":
            raise
    return shown(document, summary)


def _line(step: dict[str, JSON]) -> str:
    sign = _SIGNS.get(step["status"], "…")
    took = f" in {step['duration_ms']:g} ms" if step["duration_ms"] is not None else ""
    text = f"{sign} {step['step']}: {step['status']}{took}"
    if step["attempts"] > 1:
        text += f", {step['attempts']} attempts"
    if step["iterations"]:
        counts = step["iterations"]
        text += f", {counts['done']:,} of {count_of(counts['total'], 'iteration')}"
        if counts["failed"]:
            text += f", {counts['failed']:,} failed"
    if step["kept"]:
        text += ", kept"
    if step["error"]:
        text += f": {step['error'].get('message', '')}"
    return text
