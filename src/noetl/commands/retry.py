"""``noetl retry``: run steps of a finished execution again."""

from __future__ import annotations

import asyncio
from typing import Any, NoReturn

import click

from noetl.commands.fork import (
    Choose,
    Wishes,
    edit_options,
    fork_execution,
    run_fork,
)
from noetl.commands.output.progress import choose_progress
from noetl.commands.remote.control import (
    Wanted,
    check_target,
    filter_options,
    order_many,
)
from noetl.commands.settings import pass_settings
from noetl.config import Settings
from noetl.runtime.forks.plan import Origin, find_retry
from noetl.runtime.forks.points import Start
from noetl.types import JSON


@click.command("retry")
@click.argument("execution", metavar="[ID]", required=False)
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
@filter_options
@edit_options
@pass_settings
def command(
    settings: Settings,
    /,
    execution: str | None,
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

    With filters instead of ID, all executions that failed and match are retried, except
    those that were retried before: on a server without waiting for them, in a home one
    after the other.

    \b
    Examples:
      noetl retry 019a8f
      noetl retry last --from load --set region=eu
      noetl retry --status failed --path 'sales/*' --since 2d --dry-run
    """
    wanted = Wanted(**{name: wishes.pop(name) for name in Wanted.__struct_fields__})
    check_target(execution, wanted)

    async def choose(origin: Origin) -> Start:
        return await find_retry(origin, step, number)

    if execution is None:
        _retry_many(settings, wanted, choose, step, wishes)
    fork_execution(
        settings, execution, choose, "retry", {"step": step, "run": number}, **wishes
    )


def _retry_many(
    settings: Settings,
    wanted: Wanted,
    choose: Choose,
    step: str | None,
    options: dict[str, Any],
) -> NoReturn:
    """Retry all executions that match, without edits."""
    server, dry_run = options.pop("server"), options.pop("dry_run")
    as_json, quiet = options.pop("as_json"), options.pop("no_progress")
    options.pop("wait", None)
    asked = Wishes(**options)
    if asked != Wishes() or step is not None:
        message = "edits and --from are for one execution: give its ID"
        raise click.UsageError(message)

    def order(execution_id: str) -> dict[str, JSON]:
        progress = choose_progress(quiet=quiet, as_json=as_json)
        retry = run_fork(settings, execution_id, choose, asked, progress)
        document = asyncio.run(retry)
        return {"retried_as": document["execution_id"], "again": document["status"]}

    order_many(
        *(settings, server, "retry", ("failed",), wanted, order),
        dry_run=dry_run,
        as_json=as_json,
    )
