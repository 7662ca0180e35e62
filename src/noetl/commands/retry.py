"""``noetl retry``: run steps of a finished execution again."""

from __future__ import annotations

from typing import Any

import click

from noetl.commands.fork_and_retry import edit_options, fork_execution
from noetl.commands.settings import pass_settings
from noetl.config import Settings
from noetl.runtime.forks.plan import Origin, find_retry
from noetl.runtime.forks.points import Start


@click.command("retry")
@click.argument("execution", metavar="ID")
@click.option(
    "--from", "step", metavar="STEP", help="Start with this step (the failed ones)."
)
@click.option(
    "--run",
    "number",
    type=click.IntRange(min=1),
    metavar="N",
    help="The N-th run of STEP (default: the last).",
)
@edit_options
@pass_settings
def command(
    settings: Settings,
    /,
    execution: str,
    step: str | None,
    number: int | None,
    **wishes: Any,
) -> None:
    """Run again what failed in a finished execution, in a new execution.

    Without --from, the steps whose failure was not handled run again, and the loops in
    which iterations failed. Finished iterations are kept. With --from, STEP runs again
    as a whole, and nothing else that failed. The steps that follow run again, too;
    other branches keep their results. The old execution does not change. The start or
    end of ID is enough. Output and exit codes are as of noetl run.

    \b
    Examples:
      noetl retry 019a8f
      noetl retry last --from load --set region=eu
    """

    async def choose(origin: Origin) -> Start:
        return await find_retry(origin, step, number)

    fork_execution(
        settings, execution, choose, "retry", {"step": step, "run": number}, **wishes
    )
