"""``noetl events``: the log of an execution, as it is."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Sequence

import click
import msgspec

from noetl.client import Client
from noetl.commands import remote
from noetl.commands.exporting import FORMATS, check_export, export_events
from noetl.commands.logs import PAGE, Place, find_execution, read_pages, reading
from noetl.commands.mirror import NEWEST, mirrored
from noetl.commands.printing import where_of
from noetl.commands.targets import server_of, server_option
from noetl.commands.viewing import PLAIN, print_view, read_where
from noetl.dialects.views import DIALECTS
from noetl.engine.events import Event
from noetl.engine.tracing import traced
from noetl.home import Home

LAST = "playbook.processed"
INTERVAL = 0.2  # seconds between two looks into a log that others write


@click.command("events")
@click.argument("execution", metavar="ID")
@click.option("--follow", "-f", is_flag=True, help="Go on until it has finished.")
@click.option(
    "--dialect",
    type=click.Choice(DIALECTS),
    default=PLAIN,
    show_default=True,
    help="Show them as this document of the specification does.",
)
@click.option(
    "--where",
    "asked",
    metavar="ID=VALUE",
    multiple=True,
    help="Those with this id, e.g. action_id=… or name=task.done.",
)
@server_option
@click.option("--json", "as_json", is_flag=True, help="One JSON document per line.")
@click.option(
    "--export",
    type=(click.Choice(FORMATS), str),
    metavar="FORMAT FILE",
    help="Write them to a file: parquet or jsonl.",
)
def command(
    execution: str,
    follow: bool,
    dialect: str,
    asked: tuple[str, ...],
    server: str | None,
    as_json: bool,
    export: tuple[str, str] | None,
) -> None:
    """Print the events of an execution in log order. A prefix of ID will do.

    With --follow, those that come later are printed as they are committed, until the
    execution has finished. Exit code: 0, or 130 if it was interrupted before.

    With --dialect they are shown as 000 (formal names, tokens), 001 (the log itself)
    or 003 (cases, tools, retries, polls) have them. --where keeps those that have an
    id: step_run_id, task_run_id, tool_run_id, action_id, iteration_id, attempt, …

    With --export they become a file, which is there when it is whole; with - as FILE,
    jsonl goes to standard output. The ID all then means every execution.

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
            asyncio.run(_export(server, execution, *export))
            return
        if execution == "all":
            raise click.UsageError("all executions at once can only be exported")
        wanted = read_where(asked)
        if wanted or dialect != PLAIN:
            if follow:
                wrong = "--where" if wanted else "--dialect"
                raise click.UsageError(f"{wrong} contradicts --follow")
            print_view(execution, server, dialect, wanted, as_json=as_json)
            return
        client = asyncio.run(server_of(server, execution))
        if client is not None:
            _print_remote(client, execution, follow=follow, as_json=as_json)
            return
        asyncio.run(_print(execution, follow=follow, as_json=as_json))
    except KeyboardInterrupt:
        sys.exit(130)


async def _export(server: str | None, execution: str, form: str, file: str) -> None:
    client = await server_of(server, execution)
    if client is None:
        await export_events(Home.of(), execution, form, file)
        return
    check_export(form, file)
    wanted = [] if execution == "all" else [execution]
    async with mirrored(client, wanted) as home:
        await export_events(home, "all", form, file)
    if not wanted:
        text = f"those of the newest {NEWEST} executions of {client.url}"
        click.echo(text, err=True)


def _print_remote(
    client: Client, execution: str, *, follow: bool, as_json: bool
) -> None:
    execution_id = remote.whole_id(client, execution)
    find = remote.follow if follow else remote.events_of
    for event in find(client, execution_id):
        if as_json:
            click.echo(json.dumps(event, ensure_ascii=False, separators=(",", ":")))
        else:
            click.echo(_line(msgspec.convert(event, Event)))


async def _print(execution: str, *, follow: bool, as_json: bool) -> None:
    place = await find_execution(Home.of(), execution)
    if follow:
        await _follow(place, as_json=as_json)
        return
    trace = ""
    async for page in read_pages(place):
        trace = trace or page[0].payload["trace_id"]
        _echo(page, trace, as_json=as_json)


async def _follow(place: Place, *, as_json: bool) -> None:
    after, last, trace = 0, "", ""
    async with reading(place.log) as store:
        while last != LAST:
            page = await store.read(place.execution_id, after=after, limit=PAGE)
            if page:
                trace = trace or page[0].payload["trace_id"]
                _echo(page, trace, as_json=as_json)
                after, last = page[-1].seq, page[-1].name
            else:
                await asyncio.sleep(INTERVAL)


def _echo(page: Sequence[Event], trace: str, *, as_json: bool) -> None:
    """A page at once: printing each by itself takes longer than reading it."""
    if as_json:
        encode = msgspec.json.encode
        click.echo(b"\n".join(traced(encode(event), trace) for event in page))
    else:
        click.echo("\n".join(map(_line, page)))


def _line(event: Event) -> str:
    task = f" {event.task_label}" if event.task_label else ""
    attempt = f" #{event.attempt}" if event.attempt else ""
    text = f"{event.name} {where_of(event)}{task}{attempt}"
    return f"{event.seq:>6} {event.timestamp} {text}".rstrip()
