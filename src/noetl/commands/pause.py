"""``noetl pause``: pause an execution."""

from __future__ import annotations

import asyncio
import json

import click

from noetl.commands.remote.choose_server import server_option
from noetl.commands.remote.control import steer
from noetl.commands.settings import pass_settings
from noetl.config import Settings
from noetl.embedded import Embedded
from noetl.engine.decide import pause


@click.command("pause")
@click.argument("execution", metavar="ID")
@server_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@pass_settings
def command(
    settings: Settings, execution: str, server: str | None, as_json: bool
) -> None:
    """Pause an execution: running tasks finish, no new ones start.

    The process that runs it exits, as with Ctrl-C. The start or end of ID is enough.

    \b
    Example:
      noetl pause 019a8f
      noetl resume 019a8f
    """
    answer = asyncio.run(steer(settings, execution, {"do": "pause"}, _pause, server))
    if as_json:
        click.echo(json.dumps(answer))
        return
    click.echo(f"{answer['execution_id']} is being paused")
    click.echo(f"  continue with: noetl resume {answer['execution_id']}")


async def _pause(runtime: Embedded) -> None:
    await runtime.orchestrator.decide(runtime.execution_id, pause)
