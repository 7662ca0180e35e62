"""``noetl fork``: go on from any event of an execution."""

from __future__ import annotations

from typing import Any

import click

from noetl.commands.forking import edit_options, fork_execution
from noetl.runtime.fork_plans import Origin
from noetl.runtime.origins import Start


@click.command("fork")
@click.argument("execution", metavar="ID")
@click.option(
    "--at",
    type=int,
    metavar="SEQ",
    required=True,
    help="The last event that is kept (see noetl events ID).",
)
@edit_options
def command(execution: str, at: int, **wishes: Any) -> None:
    """Make a new execution that goes on from an event of another one.

    It keeps what was done up to the event SEQ, and runs on from there with other
    inputs, other values of ctx or a newer playbook. What was under way at that event
    begins again. The other execution stays as it is, also if it is still running.
    A prefix of ID will do. Output and exit codes are those of noetl run.

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

    fork_execution(execution, choose, "fork", {"at": at}, **wishes)
