"""``noetl cancel``: cancel an execution."""

from __future__ import annotations

import asyncio
import json

import click

from noetl.commands.remote.choose_server import server_option
from noetl.commands.remote.control import steer
from noetl.commands.settings import pass_settings
from noetl.config import Settings
from noetl.embedded import Embedded


@click.command("cancel")
@click.argument("execution", metavar="ID")
@server_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@pass_settings
def command(
    settings: Settings, execution: str, server: str | None, as_json: bool
) -> None:
    """Cancel an execution: stop its tools and its child executions.

    The execution may be running in another terminal, be paused, or have been left by a
    process that was killed. The start or end of ID is enough.

    \b
    Example:
      noetl cancel 019a8f
    """
    answer = asyncio.run(steer(settings, execution, {"do": "cancel"}, _cancel, server))
    if as_json:
        click.echo(json.dumps(answer))
        return
    word = "cancelled" if answer["status"] == "cancelled" else "is being cancelled"
    click.echo(f"{answer['execution_id']} {word}")


async def _cancel(runtime: Embedded) -> None:
    """Finish the cancelled execution here; work of a lost process is not restarted."""
    await runtime.orchestrator.cancel(runtime.execution_id)
    await runtime.finish()
