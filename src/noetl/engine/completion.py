"""No token left: the execution ends, exactly once."""

from __future__ import annotations

import msgspec

from noetl.engine.batch import Batch
from noetl.engine.outcome import Failure
from noetl.engine.state import ExecutionStatus
from noetl.types import JSON


def conclude(batch: Batch) -> None:
    """Finish if nothing can move any more; a join that waits in vain is an error."""
    state = batch.state
    if state.tokens or state.runs or state.finished:
        return
    if state.cancelling is not None:  # S-36: a limit stops it, and is a failure
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


def finish(
    batch: Batch, status: ExecutionStatus, error: dict[str, JSON] | None
) -> None:
    who, good = batch.state.execution_id, status == "completed"
    payload: dict[str, JSON] = {
        "status": status,
        "error": error,
        "result": batch.state.result,
    }
    if status == "cancelled":  # S-38; S-35: a deadline cancels, too
        payload["reason"] = (error or {}).get("kind", "cancelled")
    mark = "success" if good else "error"
    batch.emit("workflow.finished", who, payload, status=mark)  # type: ignore[arg-type]
    batch.emit("playbook.processed", who, {"status": status}, status=mark)  # type: ignore[arg-type]
