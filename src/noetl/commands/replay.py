"""``noetl replay``: the state that the log adds up to, at any point of it."""

from __future__ import annotations

import asyncio
import json

import click
import yaml

from noetl.commands.logs import find_execution, read_pages
from noetl.commands.remote import whole_id
from noetl.commands.targets import server_of, server_option
from noetl.engine.document import state_document
from noetl.engine.evolve import replay
from noetl.engine.state import State
from noetl.home import Home
from noetl.types import JSON


@click.command("replay")
@click.argument("execution", metavar="ID")
@click.option(
    "--at",
    type=click.IntRange(min=1),
    metavar="SEQ",
    help="Only the events up to this one.",
)
@server_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(execution: str, at: int | None, server: str | None, as_json: bool) -> None:
    """Rebuild the state of an execution from its log; no tool is called.

    \b
    Example:
      noetl replay 019a8f --at 12
    """
    client = asyncio.run(server_of(server, execution))
    if client is not None:
        place = f"/api/executions/{whole_id(client, execution)}/state"
        document = client.get(place, at=at)
    else:
        document = _rebuild(execution, at)
    if as_json:
        click.echo(json.dumps(document, ensure_ascii=False))
        return
    click.echo(yaml.safe_dump(document, sort_keys=False, allow_unicode=True), nl=False)


def _rebuild(execution: str, at: int | None) -> dict[str, JSON]:
    state = asyncio.run(_fold(execution, at))
    if at is not None and state.seq < at:
        known = f"the log has events 1 to {state.seq}"
        raise click.BadParameter(known, param_hint="--at")
    return state_document(state)


async def _fold(execution: str, at: int | None) -> State:
    state = State()
    async for page in read_pages(await find_execution(Home.of(), execution)):
        wanted = page if at is None else page[: at - state.seq]
        replay(wanted, state)
        if state.seq == at:
            break
    return state
