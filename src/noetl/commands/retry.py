"""``noetl retry``: a finished execution again, from one of its steps."""

from __future__ import annotations

from typing import Any

import click

from noetl.commands.forking import edit_options, fork_execution
from noetl.runtime.fork_plans import Origin, find_retry
from noetl.runtime.origins import Start


@click.command("retry")
@click.argument("execution", metavar="ID")
@click.option(
    "--from", "step", metavar="STEP", help="Begin with this step (those that failed)."
)
@click.option(
    "--run",
    "number",
    type=click.IntRange(min=1),
    metavar="N",
    help="The N-th run of STEP (the last one).",
)
@edit_options
def command(
    execution: str, step: str | None, number: int | None, **wishes: Any
) -> None:
    """Run steps of a finished execution again, in a new execution.

    The steps that failed with nobody to handle it run again, and what follows from
    them; all else that was done is kept. With --from, what was done before STEP was
    begun is kept, and STEP and what came after it run again. The old execution stays
    as it is. A prefix of ID will do. Output and exit codes are those of noetl run.

    \b
    Examples:
      noetl retry 019a8f
      noetl retry last --from load --set region=eu
    """

    async def choose(origin: Origin) -> Start:
        return await find_retry(origin, step, number)

    fork_execution(execution, choose, "retry", {"step": step, "run": number}, **wishes)
