"""``noetl cancel``: cancel an execution."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import click

from noetl.commands.remote.choose_server import server_option
from noetl.commands.remote.control import (
    Wanted,
    check_target,
    filter_options,
    order_many,
    steer,
)
from noetl.commands.settings import pass_settings
from noetl.config import Settings
from noetl.embedded import Embedded
from noetl.service.executions.queries import OPEN


@click.command("cancel")
@click.argument("execution", metavar="[ID]", required=False)
@filter_options
@click.option("--dry-run", is_flag=True, help="Only show what would happen.")
@server_option
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@pass_settings
def command(
    settings: Settings,
    /,
    execution: str | None,
    dry_run: bool,
    server: str | None,
    as_json: bool,
    **filters: Any,
) -> None:
    """Cancel an execution: stop its tools and its child executions.

    The execution may be running in another terminal, be paused, or have been left by a
    process that was killed. The start or end of ID is enough.

    With filters instead of ID, all executions that match and have not ended are
    cancelled.

    \b
    Examples:
      noetl cancel 019a8f
      noetl cancel --path 'sales/*' --since 2h --dry-run
    """
    wanted = Wanted(**filters)
    check_target(execution, wanted)
    if execution is None:
        order_many(
            *(settings, server, "cancel", OPEN, wanted),
            lambda each: asyncio.run(
                steer(settings, each, {"do": "cancel"}, _cancel, None)
            ),
            dry_run=dry_run,
            as_json=as_json,
        )
    if dry_run:
        raise click.UsageError("--dry-run needs filters instead of an ID")
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
