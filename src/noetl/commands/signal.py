"""``noetl signal``: send a signal to a waiting execution."""

from __future__ import annotations

import asyncio
import json
from functools import partial

import click

from noetl.commands.files.playbook_files import read_inputs
from noetl.commands.remote.choose_server import server_option
from noetl.commands.remote.control import steer
from noetl.commands.settings import pass_settings
from noetl.config import Settings
from noetl.embedded import Embedded
from noetl.engine.values.references import admit_later
from noetl.engine.waits.signals import receive
from noetl.types import JSON


@click.command("signal")
@click.argument("execution", metavar="ID")
@click.argument("name", metavar="NAME")
@click.option("--data", metavar="JSON", help="The data for the waiting task (null).")
@click.option("--set", "sets", multiple=True, metavar="A.B=V", help="Set a field.")
@server_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@pass_settings
def command(
    settings: Settings,
    execution: str,
    name: str,
    data: str | None,
    sets: tuple[str, ...],
    server: str | None,
    as_json: bool,
) -> None:
    """Send a signal to an execution; a task of kind wait receives it.

    The data is checked first: it must match the schema of the waiting task. An early
    signal is kept until a task waits for it; a signal that no task can receive is
    refused. See noetl list --waiting. The start or end of ID is enough.

    \b
    Examples:
      noetl signal 019a8f approved --data '{"by": "ana"}'
      noetl signal 019a8f approved --set by=ana --set amount=20
    """
    if sets and data is not None:
        raise click.UsageError("--set contradicts --data: use one of them")
    value = read_inputs(None, sets) if sets else _parse(data)
    admit_later(value, "data")
    order: dict[str, JSON] = {"do": "signal", "name": name, "data": value}

    async def record(runtime: Embedded) -> None:
        decision = partial(receive, name=name, data=value)
        await runtime.orchestrator.decide(runtime.execution_id, decision)

    answer = asyncio.run(steer(settings, execution, order, record, server))
    if as_json:
        click.echo(json.dumps(answer))
        return
    click.echo(f"signal '{name}' is recorded for {answer['execution_id']}")


def _parse(data: str | None) -> JSON:
    if data is None:
        return None
    try:
        value: JSON = json.loads(data, parse_constant=_refuse)
        json.dumps(value, ensure_ascii=False).encode()  # refuses lone surrogates
    except ValueError as error:
        hint = "text needs JSON quotes: --data '\"yes\"'"
        message = f"not JSON: {error}; {hint}"
        raise click.BadParameter(message, param_hint="--data") from None
    return value


def _refuse(word: str) -> JSON:
    raise ValueError(f"{word} is not a JSON number")
