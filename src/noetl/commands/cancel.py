"""``noetl cancel``: an execution ends, now."""

from __future__ import annotations

import asyncio
import json

import click

from noetl.commands.steering import steer
from noetl.commands.targets import server_option
from noetl.embedded import Embedded


@click.command("cancel")
@click.argument("execution", metavar="ID")
@server_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
def command(execution: str, server: str | None, as_json: bool) -> None:
    """Cancel an execution: its tools are stopped, its children, too.

    It may run in another terminal, be paused, or have been left by a process that was
    killed. A prefix of ID will do.

    \b
    Example:
      noetl cancel 019a8f
    """
    answer = asyncio.run(steer(execution, {"do": "cancel"}, _cancel, server))
    if as_json:
        click.echo(json.dumps(answer))
        return
    word = "cancelled" if answer["status"] == "cancelled" else "is being cancelled"
    click.echo(f"{answer['execution_id']} {word}")


async def _cancel(runtime: Embedded) -> None:
    """What a lost process had begun is not begun again, and so ends here."""
    await runtime.orchestrator.cancel(runtime.execution_id)
    await runtime.finish()
