"""The end of a step run: recorded, then its arcs are judged."""

from __future__ import annotations

from noetl.engine.batch import Batch
from noetl.engine.events import Source
from noetl.engine.routing import route
from noetl.engine.state import Run
from noetl.types import JSON


def emit_step(
    batch: Batch, run: Run, name: str, payload: dict[str, JSON], source: Source
) -> None:
    batch.emit(
        name,
        run.id,
        payload,
        source=source,
        parent_id=batch.state.execution_id,
        step=run.step,
        step_run_id=run.id,
    )


def finish_step(batch: Batch, run: Run, result: JSON, source: Source) -> None:
    routed = run.routed
    emit_step(batch, run, "step.done", {"result": result}, source)
    # C-11: a loop's end has fired them already, or this does; S-38: or nobody does.
    if not routed and batch.state.cancelling is None:
        route(batch, run, on="step.done")


def fail_step(
    batch: Batch, run: Run, error: dict[str, JSON], source: Source = "server"
) -> None:
    error = {"task": None, "iteration": None, **error}  # S-11
    emit_step(batch, run, "step.failed", {"error": error}, source)
    if batch.state.cancelling is None:
        route(batch, run, on="step.failed")
