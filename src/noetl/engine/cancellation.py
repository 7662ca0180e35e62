"""Cancel: nothing new starts, and what no tool works on ends at once (S-38)."""

from __future__ import annotations

import msgspec

from noetl.engine.batch import Batch
from noetl.engine.callers import Caller, attributed
from noetl.engine.completion import conclude
from noetl.engine.endings import fail_step
from noetl.engine.ids import Path
from noetl.engine.loops import close_iteration, end_iteration, turn
from noetl.engine.outcome import Failure
from noetl.engine.runs import loop_paths, pipelines
from noetl.engine.state import Run
from noetl.types import JSON


def cancel(
    batch: Batch, error: dict[str, JSON] | None = None, caller: Caller = None
) -> None:
    state = batch.state
    if state.finished or state.cancelling is not None:
        return
    failure = Failure("cancelled", "the execution was cancelled")
    reason = error or msgspec.to_builtins(failure)
    payload = {**reason, **attributed(caller)}
    batch.emit("workflow.cancelled", state.execution_id, payload)
    for run in list(state.runs.values()):
        drop_idle(batch, run)
    conclude(batch)


def drop_idle(batch: Batch, run: Run) -> None:
    """End the pipelines of a run that no tool works on, and the loops around them."""
    error = batch.state.cancelling or {}
    for path, progress in list(pipelines(run)):
        busy = progress.started and progress.waiting is None
        if not busy and not run.ended:
            end_pipeline(batch, run, path, error)
    for path in reversed(list(loop_paths(run))):
        turn(batch, run, path)


def end_pipeline(batch: Batch, run: Run, path: Path, error: dict[str, JSON]) -> None:
    """Its worker has nothing more to say; the loops around it go on."""
    if path:
        end_iteration(batch, run, path, error, None)
    else:
        fail_step(batch, run, error)


def end_run(batch: Batch, run: Run, error: dict[str, JSON]) -> None:
    """Everything open in it ends, innermost first; no loop goes on."""
    paths = [*(path for path, _ in pipelines(run)), *loop_paths(run)]
    for path in sorted(filter(None, paths), key=len, reverse=True):
        close_iteration(batch, run, path, error)
    fail_step(batch, run, error)
