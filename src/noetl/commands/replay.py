"""``noetl replay``: rebuild the state of an execution at any event."""

from __future__ import annotations

import asyncio
import json

import click

from noetl.commands.local.logs import find_execution, read_pages
from noetl.commands.output import value_text
from noetl.commands.remote.choose_server import server_of, server_option
from noetl.commands.remote.executions import whole_id
from noetl.commands.settings import pass_settings
from noetl.config import Settings
from noetl.engine.evolve import replay
from noetl.engine.execution_document import state_document
from noetl.engine.state import State
from noetl.local.home import Home
from noetl.types import JSON


@click.command("replay")
@click.argument("execution", metavar="ID")
@click.option(
    "--at",
    type=click.IntRange(min=1),
    metavar="SEQ",
    help="The last event to apply (default: all).",
)
@server_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@pass_settings
def command(
    settings: Settings,
    execution: str,
    at: int | None,
    server: str | None,
    as_json: bool,
) -> None:
    """Rebuild the state of an execution from its log; no tool is called.

    \b
    Example:
      noetl replay 019a8f --at 12
    """
    client = asyncio.run(server_of(settings, server, execution))
    if client is not None:
        place = f"/api/executions/{whole_id(client, execution)}/state"
        document = client.get(place, at=at)
    else:
        document = _rebuild(settings, execution, at)
    if as_json:
        click.echo(json.dumps(document, ensure_ascii=False))
        return
    click.echo(value_text(document), nl=False)


def _rebuild(settings: Settings, execution: str, at: int | None) -> dict[str, JSON]:
    state = asyncio.run(_fold(settings, execution, at))
    if at is not None and state.seq < at:
        known = f"the log has events 1 to {state.seq}"
        raise click.BadParameter(known, param_hint="--at")
    return state_document(state)


async def _fold(settings: Settings, execution: str, at: int | None) -> State:
    state = State()
    async for page in read_pages(await find_execution(Home.of(settings), execution)):
        wanted = page if at is None else page[: at - state.seq]
        replay(wanted, state)
        if state.seq == at:
            break
    return state
