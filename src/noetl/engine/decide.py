"""Inputs and their consequences: each function makes one batch for the log."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from noetl.engine import ids
from noetl.engine.admission import arrive, fill_join
from noetl.engine.batch import Batch
from noetl.engine.completion import conclude
from noetl.engine.endings import emit_step, fail_step, finish_step
from noetl.engine.limits import limits_of
from noetl.engine.loops import begin_loop, end_iteration, turn
from noetl.engine.outcome import Failure
from noetl.engine.reports import Fact, OutOfOrder, record
from noetl.engine.runs import find_progress, is_open, loop_paths, path_of, pipelines
from noetl.engine.state import Run
from noetl.types import JSON


class Request(msgspec.Struct, frozen=True):
    """What somebody asked for; ``workload`` is merged already (WRK-02)."""

    execution_id: str
    playbook: dict[str, JSON]
    workload: dict[str, JSON]
    args: dict[str, JSON] = msgspec.field(default_factory=dict)
    ctx: dict[str, JSON] = msgspec.field(default_factory=dict)


def accept(batch: Batch, request: Request) -> None:
    """Start an execution: requested, evaluated, started, and what the token causes."""
    entry = batch.playbook.entry
    assert entry is not None, "a valid playbook has a step"
    who = batch.state.execution_id = request.execution_id
    about = {"playbook": request.playbook}
    batch.emit("playbook.execution.requested", who, about)
    extensions = sorted(batch.playbook.extensions)
    batch.emit("playbook.request.evaluated", who, {**about, "extensions": extensions})
    token = {"token_id": ids.token_id(who, 1), "step": entry.name, "args": request.args}
    started = {"workload": request.workload, "ctx": request.ctx, "token": token}
    batch.emit("workflow.started", who, started)
    settle(batch)


def report(batch: Batch, command_id: str, facts: Sequence[Fact]) -> None:
    """A worker's facts about one pipeline, and what follows if it has ended."""
    run_id = command_id.split("/")[0]
    path = path_of(command_id)
    run = batch.state.runs.get(run_id)
    if run is None or not is_open(run, path):
        raise OutOfOrder(f"no pipeline '{command_id}' is open")
    record(batch, run, path, facts)
    progress = find_progress(run, path)
    if progress.end is None:
        if batch.state.cancelling is not None:
            _drop_idle(batch, run)
            conclude(batch)
        return
    error = (progress.error or {}) if progress.end == "failed" else None
    if path:
        end_iteration(batch, run, path, error, progress.result, "worker")
    elif error is not None:
        fail_step(batch, run, error, "worker")
    else:
        finish_step(batch, run, progress.result, "worker")
    settle(batch)


def settle(batch: Batch) -> None:
    """Move tokens until nothing moves; then finish if nothing is left."""
    state = batch.state
    while state.status == "running" and state.cancelling is None:
        token = next(iter(state.tokens.values()), None)
        if token is None:
            if not _fill_joins(batch):
                break
            continue
        limit = limits_of(batch.playbook).step_runs
        if state.run_count >= limit:
            message = f"the execution has run {limit:,} steps, its limit"
            cancel(batch, msgspec.to_builtins(Failure("limit.exceeded", message)))
            return
        run = arrive(batch, token)
        if run is not None:
            _begin(batch, run)
    conclude(batch)


def _fill_joins(batch: Batch) -> bool:
    for name in list(batch.state.joining):
        fired, run = fill_join(batch, batch.playbook.steps[name])
        if run is not None:
            _begin(batch, run)
        if fired:
            return True
    return False


def _begin(batch: Batch, run: Run) -> None:
    """What the server itself does with a new run: routing steps and loops."""
    step = batch.playbook.steps[run.step]
    if step.tasks and step.loop is None:
        return  # a worker's
    emit_step(batch, run, "step.started", {"tokens": run.tokens}, "server")
    if step.loop is not None:
        begin_loop(batch, run)
    else:  # S-03: completed without a worker
        finish_step(batch, run, None, "server")


def cancel(batch: Batch, error: dict[str, JSON] | None = None) -> None:
    """Nothing new starts; runs that no tool works on end at once (S-38)."""
    state = batch.state
    if state.finished or state.cancelling is not None:
        return
    failure = Failure("cancelled", "the execution was cancelled")
    batch.emit(
        "workflow.cancelled", state.execution_id, error or msgspec.to_builtins(failure)
    )
    for run in list(state.runs.values()):
        _drop_idle(batch, run)
    conclude(batch)


def _drop_idle(batch: Batch, run: Run) -> None:
    error = batch.state.cancelling or {}
    for path, progress in list(pipelines(run)):
        if progress.started or run.ended:
            continue
        if path:
            end_iteration(batch, run, list(path), error, None)
        else:
            fail_step(batch, run, error)
    _turn_all(batch, run)


def _turn_all(batch: Batch, run: Run) -> None:
    """Let every open loop of the run go on, innermost first."""
    for path in reversed(list(loop_paths(run))):
        turn(batch, run, list(path))


def pause(batch: Batch) -> None:
    """Nothing new is scheduled; outcomes of what runs are recorded (S-39)."""
    if batch.state.status == "running" and not batch.state.finished:
        batch.emit("workflow.paused", batch.state.execution_id, {})


def resume(batch: Batch) -> None:
    """Go on as if never paused: loops fill up again, tokens move."""
    if batch.state.status != "paused":
        return
    batch.emit("workflow.resumed", batch.state.execution_id, {})
    for run in list(batch.state.runs.values()):
        _turn_all(batch, run)
    settle(batch)
