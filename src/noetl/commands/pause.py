"""``noetl pause``: nothing new starts until somebody resumes."""

from __future__ import annotations

import asyncio
import json

import click

from noetl.commands.steering import steer
from noetl.commands.targets import server_option
from noetl.embedded import Embedded
from noetl.engine.decide import pause


@click.command("pause")
@click.argument("execution", metavar="ID")
@server_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(execution: str, server: str | None, as_json: bool) -> None:
    """Pause an execution: what runs is finished, nothing new starts.

    The process that runs it ends, as with Ctrl-C. A prefix of ID will do.

    \b
    Example:
      noetl pause 019a8f
      noetl resume 019a8f
    """
    answer = asyncio.run(steer(execution, {"do": "pause"}, _pause, server))
    if as_json:
        click.echo(json.dumps(answer))
        return
    click.echo(f"{answer['execution_id']} is being paused")
    click.echo(f"  go on with: noetl resume {answer['execution_id']}")


async def _pause(runtime: Embedded) -> None:
    await runtime.orchestrator.decide(runtime.execution_id, pause)
