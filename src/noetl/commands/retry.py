"""``noetl retry``: a finished execution again, from one of its steps."""

from __future__ import annotations

from typing import Any

import click

from noetl.commands.forking import edit_options, fork_execution
from noetl.commands.origins import Origin
from noetl.commands.printing import count_of
from noetl.dsl.diagnostics import did_you_mean
from noetl.errors import ConfigError
from noetl.runtime.origins import Start, find_admissions, find_failures


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
        _check_over(origin)
        if step is None:
            if number is not None:
                raise ConfigError("--run: say of which step, with --from")
            return await find_failures(origin.log, origin.execution_id)
        return Start(await _find(origin, step, number))

    fork_execution(execution, choose, **wishes)


def _check_over(origin: Origin) -> None:
    if origin.summary.finished_at is None:
        name = origin.execution_id
        raise ConfigError(
            f"{name} is not over: {origin.summary.status}. Let it end (noetl resume "
            f"{name}, noetl cancel {name}), or go on beside it with noetl fork"
        )


async def _find(origin: Origin, step: str, number: int | None) -> int:
    """The last event before the step's run was begun."""
    found = await find_admissions(origin.log, origin.execution_id, step)
    if not found:
        raise ConfigError(_never(origin, step))
    if number is not None and number > len(found):
        runs = count_of(len(found), "run")
        raise ConfigError(f"step '{step}' has {runs}: there is no run {number}")
    return found[-1 if number is None else number - 1] - 1


def _never(origin: Origin, step: str) -> str:
    known = origin.playbook.steps if origin.playbook is not None else {}
    if known and step not in known:
        hint = did_you_mean(step, known) or "noetl show lists them"
        return f"there is no step '{step}': {hint}"
    return f"step '{step}' was never reached: see noetl show {origin.execution_id}"
