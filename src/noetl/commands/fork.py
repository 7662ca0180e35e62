"""``noetl fork``: continue from any event of an execution."""

from __future__ import annotations

from typing import Any

import click

from noetl.commands.fork_and_retry import edit_options, fork_execution
from noetl.commands.settings import pass_settings
from noetl.config import Settings
from noetl.runtime.forks.plan import Origin
from noetl.runtime.forks.points import Start


@click.command("fork")
@click.argument("execution", metavar="ID")
@click.option(
    "--at",
    type=int,
    metavar="SEQ",
    required=True,
    help="The last event to keep (see noetl events ID).",
)
@edit_options
@pass_settings
def command(settings: Settings, /, execution: str, at: int, **wishes: Any) -> None:
    """Create a new execution that continues from an event of another one.

    The fork keeps the work up to the event SEQ, and continues with other inputs, other
    values of ctx or a newer playbook. Tasks that were running at that event start
    again. The original execution does not change, even if it is still running.
    The start or end of ID is enough. Output and exit codes are those of noetl run.

    \b
    Examples:
      noetl fork 019a8f --at 12
      noetl fork 019a8f --at 12 --set region=eu --set-ctx total=0
      noetl fork last --at 12 --playbook fixed.yaml --dry-run
    """

    async def choose(origin: Origin) -> Start:
        if at < 1:
            raise click.BadParameter("events count from 1", param_hint="--at")
        return Start(at)

    fork_execution(settings, execution, choose, "fork", {"at": at}, **wishes)
