"""Completion: end the execution exactly once, when no token is left."""

from __future__ import annotations

import msgspec

from noetl.engine.endings import LISTED
from noetl.engine.events import (
    PLAYBOOK_PROCESSED,
    WORKFLOW_CANCELLED,
    WORKFLOW_FINISHED,
    AnyPayload,
    Caller,
    EndStatus,
    PlaybookProcessed,
    Status,
    WorkflowFinished,
)
from noetl.engine.ids import Path
from noetl.engine.recorder import Batch
from noetl.engine.runs import Run, loop_paths, pipelines
from noetl.engine.steps.loops import close_iteration, end_iteration, turn
from noetl.engine.steps.routing import fail_step
from noetl.engine.tasks.outcome import Failure
from noetl.types import JSON


def conclude(batch: Batch) -> None:
    """Finish if nothing can move any more; a join that can never fill is an error."""
    state = batch.state
    if state.tokens or state.runs or state.finished:
        return
    if state.cancelling is not None:  # S-36: exceeding a limit is a failure
        limited = state.cancelling["kind"] == "limit.exceeded"
        finish(batch, "failed" if limited else "cancelled", state.cancelling)
        return
    if state.status == "paused":
        return
    error = next(iter(state.failures.values()), None)
    if error is None and state.joining:
        names = ", ".join(sorted(state.joining))
        failure = Failure("join.unreachable", f"the join at {names} can never fill")
        error = msgspec.to_builtins(failure)
    finish(batch, "completed" if error is None else "failed", error)


def finish(batch: Batch, status: EndStatus, error: dict[str, JSON] | None) -> None:
    who, good = batch.state.execution_id, status == "completed"
    payload: WorkflowFinished = {
        "status": status,
        "error": error,
        "result": batch.state.result,
    }
    if status == "cancelled":  # S-38; S-35: a deadline cancels as well
        payload["reason"] = (error or {}).get("kind", "cancelled")
    if steps := _find_unreached(batch):
        payload["not_reached"] = {"count": len(steps), "steps": steps[:LISTED]}
    mark: Status = "success" if good else "error"
    batch.emit(WORKFLOW_FINISHED, who, payload, status=mark)
    processed: PlaybookProcessed = {"status": status}
    batch.emit(PLAYBOOK_PROCESSED, who, processed, status=mark)


def _find_unreached(batch: Batch) -> list[str]:
    """Return the steps after arcs that did not fire that no token reached (S-74)."""
    state, net = batch.state, batch.net
    reached = state.reached or {}
    pending = [step for step in state.unfired if step in net.steps]
    found: set[str] = set()
    while pending:
        step = pending.pop()
        if step not in reached and step not in found:
            found.add(step)
            pending.extend(net.successors(step))
    return [step for step in net.steps if step in found] if found else []


def cancel(
    batch: Batch, error: dict[str, JSON] | None = None, caller: Caller = None
) -> None:
    state = batch.state
    if state.finished or state.cancelling is not None:
        return
    failure = Failure("cancelled", "the execution was cancelled")
    reason = error or msgspec.to_builtins(failure)
    payload: AnyPayload = dict(reason)
    if caller is not None:
        payload["caller"] = dict(caller)
    batch.emit(WORKFLOW_CANCELLED, state.execution_id, payload)
    for run in list(state.runs.values()):
        drop_idle(batch, run)
    conclude(batch)


def bound_log(batch: Batch, most: int) -> None:
    """Fail an execution whose log has reached ``most`` events.

    Recorded decisions are kept, and running calls are stopped as by a cancellation, so
    the log ends slightly above the limit.
    """
    if batch.state.seq < most:
        return
    message = (
        f"the log of the execution has reached {most:,} events, the operator's limit "
        "(setting limits.execution_events)"
    )
    cancel(batch, msgspec.to_builtins(Failure("limit.exceeded", message)))


def drop_idle(batch: Batch, run: Run) -> None:
    """End the pipelines of a run that have no running call, and the loops around
    them."""
    error = batch.state.cancelling or {}
    for path, progress in list(pipelines(run)):
        busy = progress.started and progress.waiting is None
        if not busy and not run.ended:
            end_pipeline(batch, run, path, error)
    for path in reversed(list(loop_paths(run))):
        turn(batch, run, path)


def end_pipeline(batch: Batch, run: Run, path: Path, error: dict[str, JSON]) -> None:
    """End a pipeline with the error; the loops around it continue."""
    if path:
        end_iteration(batch, run, path, error, None)
    else:
        fail_step(batch, run, error)


def end_run(batch: Batch, run: Run, error: dict[str, JSON]) -> None:
    """End everything that is open in the run, innermost first, without starting
    more."""
    paths = [*(path for path, _ in pipelines(run)), *loop_paths(run)]
    for path in sorted(filter(None, paths), key=len, reverse=True):
        close_iteration(batch, run, path, error)
    fail_step(batch, run, error)
