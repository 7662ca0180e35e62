"""``noetl retry``: a finished execution again, from one of its steps."""

from __future__ import annotations

from typing import Any

import click

from noetl.commands.forking import edit_options, fork_execution
from noetl.commands.origins import Origin
from noetl.commands.printing import count_of
from noetl.dsl.diagnostics import did_you_mean
from noetl.errors import ConfigError
from noetl.runtime.origins import find_admissions


@click.command("retry")
@click.argument("execution", metavar="ID")
@click.option("--from", "step", metavar="STEP", required=True, help="Begin here.")
@click.option(
    "--run",
    "number",
    type=click.IntRange(min=1),
    metavar="N",
    help="The N-th run of the step (the last one).",
)
@edit_options
def command(execution: str, step: str, number: int | None, **wishes: Any) -> None:
    """Run a finished execution again from a step.

    What was done before the step was begun is kept; the step and what came after it
    run again, in a new execution. The old one stays as it is. A prefix of ID will do.
    Output and exit codes are those of noetl run.

    \b
    Examples:
      noetl retry 019a8f --from load
      noetl retry last --from load --set region=eu
    """

    async def choose(origin: Origin) -> int:
        return await _find(origin, step, number)

    fork_execution(execution, choose, **wishes)


async def _find(origin: Origin, step: str, number: int | None) -> int:
    """The last event before the step's run was begun."""
    if origin.summary.finished_at is None:
        name = origin.execution_id
        raise ConfigError(
            f"{name} is not over: {origin.summary.status}. Let it end (noetl resume "
            f"{name}, noetl cancel {name}), or go on beside it with noetl fork"
        )
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
