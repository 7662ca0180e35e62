"""``noetl events``: print, follow or export the log of an execution."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Sequence
from itertools import islice
from typing import Literal

import click
import msgspec

from noetl.client.http import Client
from noetl.commands.local.logs import PAGE, Place, find_execution, read_pages, reading
from noetl.commands.output.event_views import (
    FORMATS,
    PLAIN,
    Sentences,
    check_export,
    export_events,
    fetch_playbook,
    print_view,
    raw_line,
    read_playbook,
    read_where,
)
from noetl.commands.remote import executions
from noetl.commands.remote.choose_server import server_of, server_option
from noetl.commands.remote.download import MAX_COPIED, mirrored
from noetl.commands.settings import pass_settings
from noetl.config import Settings
from noetl.dialects.views import DIALECTS
from noetl.engine.event_codec import traced
from noetl.engine.events import Event
from noetl.local.home import Home

Form = Literal["told", "raw", "json"]
"""Sentences, the names and ids of events, or JSON."""
LAST_EVENT = "playbook.processed"
POLL_INTERVAL_S = 0.2  # seconds between two reads of a log that another process writes


@click.command("events")
@click.argument("execution", metavar="ID")
@click.option(
    "--follow", "-f", is_flag=True, help="Continue until the execution has finished."
)
@click.option(
    "--raw", is_flag=True, help="Print names, timestamps and ids, not sentences."
)
@click.option(
    "--dialect",
    type=click.Choice(DIALECTS),
    default=PLAIN,
    show_default=True,
    help="Show events in the format of this specification document.",
)
@click.option(
    "--where",
    "asked",
    metavar="ID=VALUE",
    multiple=True,
    help="Only events with this id, e.g. action_id=… or name=task.done.",
)
@server_option
@click.option("--json", "as_json", is_flag=True, help="One JSON document per line.")
@click.option(
    "--export",
    type=(click.Choice(FORMATS), str),
    metavar="FORMAT FILE",
    help="Write the events to a file: parquet or jsonl.",
)
@pass_settings
def command(
    settings: Settings,
    execution: str,
    follow: bool,
    raw: bool,
    dialect: str,
    asked: tuple[str, ...],
    server: str | None,
    as_json: bool,
    export: tuple[str, str] | None,
) -> None:
    """Print the events of an execution in log order. The start or end of ID is enough.

    Each line has the position in the log, the time since the start, and what happened
    and why. With --raw it has the event's name, timestamp and ids instead.

    With --follow, later events are printed as they are committed, until the execution
    has finished. Exit code: 0, or 130 if it was interrupted before.

    With --dialect the events have the format of 000 (formal names, tokens), 001 (the
    log itself) or 003 (cases, tools, retries, polls). --where selects events by an id:
    step_run_id, task_run_id, tool_run_id, action_id, iteration_id, attempt, …

    With --export the events are written to a file, which appears when it is complete;
    with - as FILE, jsonl goes to standard output. Then the ID `all` means every
    execution.

    \b
    Examples:
      noetl events 019a8f --json
      noetl events 019a8f --follow
      noetl events 019a8f --dialect 003 --where name=case.evaluated --json
      noetl events all --export parquet events.parquet
    """
    try:
        if export is not None:
            if follow or as_json:
                wrong = "--follow" if follow else "--json"
                raise click.UsageError(f"{wrong} contradicts --export")
            if asked or dialect != PLAIN:
                wrong = "--where" if asked else "--dialect"
                raise click.UsageError(f"{wrong} contradicts --export")
            asyncio.run(_export(settings, server, execution, *export))
            return
        if execution == "all":
            raise click.UsageError("the ID all needs --export FORMAT FILE")
        wanted = read_where(asked)
        if wanted or dialect != PLAIN:
            if follow:
                wrong = "--where" if wanted else "--dialect"
                raise click.UsageError(f"{wrong} contradicts --follow")
            print_view(settings, execution, server, dialect, wanted, as_json=as_json)
            return
        form: Form = "json" if as_json else "raw" if raw else "told"
        client = asyncio.run(server_of(settings, server, execution))
        if client is not None:
            _print_remote(settings, client, execution, follow=follow, form=form)
            return
        asyncio.run(_print(settings, execution, follow=follow, form=form))
    except KeyboardInterrupt:
        sys.exit(130)


async def _export(
    settings: Settings, server: str | None, execution: str, form: str, file: str
) -> None:
    client = await server_of(settings, server, execution)
    if client is None:
        await export_events(Home.of(settings), execution, form, file)
        return
    check_export(form, file)
    wanted = [] if execution == "all" else [execution]
    async with mirrored(client, wanted) as home:
        await export_events(home, "all", form, file)
    if not wanted:
        text = f"events of at most the newest {MAX_COPIED} executions of {client.url}"
        click.echo(text, err=True)


def _print_remote(
    settings: Settings, client: Client, execution: str, *, follow: bool, form: Form
) -> None:
    execution_id = executions.whole_id(client, execution)
    find = executions.follow if follow else executions.events_of
    events = find(client, execution_id)
    if form == "json":
        for event in events:
            click.echo(json.dumps(event, ensure_ascii=False, separators=(",", ":")))
        return
    sentences: Sentences | None = None
    while page := [*islice(events, 1 if follow else PAGE)]:
        found = msgspec.convert(page, list[Event])
        if sentences is None and form == "told":
            playbook = fetch_playbook(settings, client, found[0])
            sentences = Sentences(found[0], playbook)
        _echo(found, sentences)


async def _print(
    settings: Settings, execution: str, *, follow: bool, form: Form
) -> None:
    home = Home.of(settings)
    place = await find_execution(home, execution)
    pages = _follow(place) if follow else read_pages(place)
    trace, sentences = "", None
    async for page in pages:
        trace = trace or page[0].payload["trace_id"]
        if form == "json":
            print_json(page, trace)
            continue
        if sentences is None and form == "told":
            playbook = await read_playbook(settings, home, page[0])
            sentences = Sentences(page[0], playbook)
        _echo(page, sentences)


async def _follow(place: Place) -> AsyncIterator[Sequence[Event]]:
    after, last = 0, ""
    async with reading(place.log) as store:
        while last != LAST_EVENT:
            page = await store.read(place.execution_id, after=after, limit=PAGE)
            if page:
                yield page
                after, last = page[-1].seq, page[-1].name
            else:
                await asyncio.sleep(POLL_INTERVAL_S)


def print_json(page: Sequence[Event], trace: str) -> None:
    """Print a page in one write: one write per event is slower than reading."""
    encode = msgspec.json.encode
    click.echo(b"\n".join(traced(encode(event), trace) for event in page))


def _echo(page: Sequence[Event], sentences: Sentences | None) -> None:
    lines = map(raw_line, page) if sentences is None else sentences.lines(page)
    click.echo("\n".join(lines))
