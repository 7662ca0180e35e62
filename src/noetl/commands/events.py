"""``noetl events``: the log of an execution, as it is."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence

import click
import msgspec

from noetl.commands.logs import PAGE, Place, find_execution, read_pages, reading
from noetl.engine.events import Event
from noetl.home import Home

LAST = "playbook.processed"
INTERVAL = 0.2  # seconds between two looks into a log that others write


@click.command("events")
@click.argument("execution", metavar="ID")
@click.option("--follow", "-f", is_flag=True, help="Go on until it has finished.")
@click.option("--json", "as_json", is_flag=True, help="One JSON document per line.")
def command(execution: str, follow: bool, as_json: bool) -> None:
    """Print the events of an execution in log order. A prefix of ID will do.

    With --follow, those that come later are printed as they are committed, until the
    execution has finished. Exit code: 0, or 130 if it was interrupted before.

    \b
    Examples:
      noetl events 019a8f --json
      noetl events 019a8f --follow
    """
    try:
        asyncio.run(_print(execution, follow=follow, as_json=as_json))
    except KeyboardInterrupt:
        sys.exit(130)


async def _print(execution: str, *, follow: bool, as_json: bool) -> None:
    place = await find_execution(Home.of(), execution)
    if follow:
        await _follow(place, as_json=as_json)
        return
    async for page in read_pages(place):
        _echo(page, as_json=as_json)


async def _follow(place: Place, *, as_json: bool) -> None:
    after, last = 0, ""
    async with reading(place.log) as store:
        while last != LAST:
            page = await store.read(place.execution_id, after=after, limit=PAGE)
            if page:
                _echo(page, as_json=as_json)
                after, last = page[-1].seq, page[-1].name
            else:
                await asyncio.sleep(INTERVAL)


def _echo(page: Sequence[Event], *, as_json: bool) -> None:
    """A page at once: printing each by itself takes longer than reading it."""
    if as_json:
        click.echo(b"\n".join(map(msgspec.json.encode, page)))
    else:
        click.echo("\n".join(map(_line, page)))


def _line(event: Event) -> str:
    where = event.iteration_id or event.step or ""
    task = f" {event.task_label}" if event.task_label else ""
    attempt = f" #{event.attempt}" if event.attempt else ""
    text = f"{event.name} {where}{task}{attempt}"
    return f"{event.seq:>6} {event.timestamp} {text}".rstrip()
