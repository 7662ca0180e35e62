"""``noetl signal``: tell a waiting execution something."""

from __future__ import annotations

import asyncio
import json
from functools import partial

import click

from noetl.commands.run import read_inputs
from noetl.commands.steering import steer
from noetl.commands.targets import server_option
from noetl.embedded import Embedded
from noetl.engine.references import admit_later
from noetl.engine.signals import receive
from noetl.types import JSON


@click.command("signal")
@click.argument("execution", metavar="ID")
@click.argument("name", metavar="NAME")
@click.option("--data", metavar="JSON", help="What the waiting task returns (null).")
@click.option("--set", "settings", multiple=True, metavar="A.B=V", help="Set a field.")
@server_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(
    execution: str,
    name: str,
    data: str | None,
    settings: tuple[str, ...],
    server: str | None,
    as_json: bool,
) -> None:
    """Send a signal to an execution; a task of kind wait takes it.

    What the task waits for is checked first: its data must fit the task's schema. One
    that comes early is kept until a task waits for it; one that nothing can take is
    refused. See noetl list --waiting. A prefix of ID will do.

    \b
    Examples:
      noetl signal 019a8f approved --data '{"by": "ana"}'
      noetl signal 019a8f approved --set by=ana --set amount=20
    """
    if settings and data is not None:
        raise click.UsageError("--set contradicts --data: use one of them")
    value = read_inputs(None, settings) if settings else _parse(data)
    admit_later(value, "data")
    order: dict[str, JSON] = {"do": "signal", "name": name, "data": value}

    async def record(runtime: Embedded) -> None:
        decision = partial(receive, name=name, data=value)
        await runtime.orchestrator.decide(runtime.execution_id, decision)

    answer = asyncio.run(steer(execution, order, record, server))
    if as_json:
        click.echo(json.dumps(answer))
        return
    click.echo(f"signal '{name}' is recorded for {answer['execution_id']}")


def _parse(data: str | None) -> JSON:
    if data is None:
        return None
    try:
        value: JSON = json.loads(data, parse_constant=_refuse)
        json.dumps(value, ensure_ascii=False).encode()  # half a surrogate pair is none
    except ValueError as error:
        hint = "text needs quotes of its own: --data '\"yes\"'"
        message = f"not JSON: {error}; {hint}"
        raise click.BadParameter(message, param_hint="--data") from None
    return value


def _refuse(word: str) -> JSON:
    raise ValueError(f"{word} is not a JSON number")
