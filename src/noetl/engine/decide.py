"""Inputs and their consequences: each function makes one batch for the log."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from noetl.engine import ids
from noetl.engine.admission import arrive, fill_join
from noetl.engine.batch import Batch, Recorder
from noetl.engine.callers import Caller, attributed
from noetl.engine.cancellation import cancel, drop_idle, end_pipeline, end_run
from noetl.engine.completion import conclude
from noetl.engine.concurrency import Concurrency
from noetl.engine.endings import emit_step, fail_step, finish_step
from noetl.engine.ids import Path
from noetl.engine.limits import deadline_of, limits_of
from noetl.engine.loops import begin_loop, end_iteration, turn
from noetl.engine.outcome import Failure
from noetl.engine.progress import Progress
from noetl.engine.references import admit
from noetl.engine.reports import Fact, OutOfOrder, check_facts, record
from noetl.engine.runs import find_progress, is_open, loop_paths, path_of, pipelines
from noetl.engine.signals import deliver
from noetl.engine.state import Run
from noetl.engine.times import rfc3339, seconds_of
from noetl.engine.tracing import trace_id_of
from noetl.errors import ForgedReference
from noetl.types import JSON

SETTLE = "settle"
"""The timer of an execution whose last batch was cut: there is more to move."""


class Request(msgspec.Struct, frozen=True):
    """What somebody asked for; ``workload`` is merged already (WRK-02).

    ``timeout`` is in seconds. ``parent`` is who called this execution: its id, run
    and action, its depth and the iteration that called. ``request_key`` names the
    request for good: there is one execution of it. ``caller`` is who asked a server,
    ``initiator`` the account whose rights the execution has.
    ``concurrency`` is the key of which it needs a place.
    """

    execution_id: str
    playbook: dict[str, JSON]
    workload: dict[str, JSON]
    args: dict[str, JSON] = msgspec.field(default_factory=dict)
    ctx: dict[str, JSON] = msgspec.field(default_factory=dict)
    timeout: float | None = None
    parent: dict[str, JSON] | None = None
    trace_id: str | None = None
    request_key: str | None = None
    caller: dict[str, JSON] | None = None
    concurrency: Concurrency | None = None
    initiator: dict[str, JSON] | None = None


def accept(batch: Batch, request: Request, *, queued: bool = False) -> None:
    """Start an execution: requested, evaluated, started, and what the token causes.

    If it is ``queued``, nothing is: it waits until it is let in.
    """
    entry = batch.playbook.entry
    assert entry is not None, "a valid playbook has a step"
    who = _ask(batch, request)
    about = {"playbook": request.playbook}
    # A short secret is left alone here: it would change inputs that happen to equal it.
    workload, ctx, args = (
        batch.secrets.redact(given, short=False)
        for given in (request.workload, request.ctx, request.args)
    )
    extensions = sorted(batch.playbook.extensions)
    batch.emit("playbook.request.evaluated", who, {**about, "extensions": extensions})
    token = {
        "token_id": ids.token_id(who, 1),
        "step": entry.name,
        "args": args,
    }
    limit = deadline_of(batch.playbook, request.timeout)
    started = {
        "workload": workload,
        "ctx": ctx,
        "token": token,
        "deadline": None if queued else _deadline(batch, limit),
    }
    if request.concurrency is not None:
        started["concurrency"] = msgspec.to_builtins(request.concurrency)
    batch.emit("workflow.started", who, started)
    if queued:
        batch.emit("workflow.queued", who, {"time_limit": limit})
    settle(batch)


def let_in(batch: Batch) -> None:
    """It has a place: its time begins to run, and its token goes on."""
    state = batch.state
    if state.queued is None or state.finished or state.cancelling is not None:
        return
    deadline = _deadline(batch, state.queued["time_limit"])
    batch.emit("workflow.admitted", state.execution_id, {"deadline": deadline})
    settle(batch)


def nothing(batch: Batch) -> None:
    """Only to come after what is queued, or to disarm a timer."""


def _deadline(batch: Batch, limit: float | None) -> str | None:
    return rfc3339(batch.clock + limit) if limit is not None else None


def objection(request: Request) -> dict[str, JSON] | None:
    """Why a request cannot be granted, by what it says itself (S-82).

    Also of a trigger or a parent: their templates may have written it.
    """
    try:
        for name in ("workload", "ctx", "args"):
            admit(getattr(request, name), name)
    except ForgedReference as error:
        return {"kind": error.kind, "message": error.message, "path": error.path}
    return None


def reject(recorder: Recorder, request: Request, error: dict[str, JSON]) -> None:
    """A request that cannot be granted is on record, too (S-42)."""
    _ask(recorder, request)
    refuse(recorder, request.playbook, error)


def refuse(
    recorder: Recorder, playbook: dict[str, JSON], error: dict[str, JSON]
) -> None:
    """Why what was asked for is not done."""
    who, about = recorder.state.execution_id, {"playbook": playbook, "error": error}
    recorder.emit("playbook.request.evaluated", who, about, status="error")
    recorder.emit("playbook.processed", who, {"status": "failed"}, status="error")


def _ask(recorder: Recorder, request: Request) -> str:
    who = recorder.state.execution_id = request.execution_id
    asked: dict[str, JSON] = {
        "playbook": request.playbook,
        "trace_id": request.trace_id or trace_id_of(who),
    }
    if request.parent is not None:
        asked["parent"] = request.parent
    if request.caller is not None:
        asked["caller"] = request.caller
    if request.initiator is not None:
        asked["initiator"] = request.initiator
    recorder.emit("playbook.execution.requested", who, asked)
    return who


def report(batch: Batch, command_id: str, facts: Sequence[Fact]) -> bool:
    """A worker's facts about one pipeline, and what follows if it has ended.

    Whether the worker must leave the pipeline: it has ended, or waits, or nothing may
    be started now.
    """
    run_id = command_id.split("/")[0]
    path = path_of(command_id)
    run = batch.state.runs.get(run_id)
    if run is None or not is_open(run, path):
        raise OutOfOrder(f"no pipeline '{command_id}' is open")
    check_facts(facts)
    stop = record(batch, run, path, facts)
    progress = find_progress(run, path)
    if progress.end is None:
        if batch.state.cancelling is not None:
            if stop:
                end_pipeline(batch, run, path, batch.state.cancelling)
            drop_idle(batch, run)
            conclude(batch)
        elif progress.waiting is not None:
            deliver(batch, run, path)
        return stop or progress.waiting is not None
    _end_pipeline(batch, run, path, progress)
    settle(batch)
    return True


def _end_pipeline(batch: Batch, run: Run, path: Path, progress: Progress) -> None:
    """Its last task has said how it ends."""
    error = (progress.error or {}) if progress.end == "failed" else None
    if path:
        end_iteration(batch, run, path, error, progress.result, "worker")
    elif error is not None:
        fail_step(batch, run, error, "worker")
    else:
        finish_step(batch, run, progress.result, "worker")


def abandon(batch: Batch, command_id: str, claims: int) -> None:
    """Workers took a pipeline so often and reported nothing: it is not offered once
    more (I-20)."""
    run = batch.state.runs.get(command_id.split("/")[0])
    path = path_of(command_id)
    if run is None or not is_open(run, path):
        return
    label = find_progress(run, path).label
    message = (
        f"{claims} workers in a row took '{label}' of step '{run.step}' and reported "
        "nothing: it is not given to another one"
    )
    error = {**msgspec.to_builtins(Failure("worker.lost", message)), "task": label}
    end_pipeline(batch, run, path, error)
    settle(batch)


def go_on(batch: Batch) -> None:
    """Decide what follows from a log that was cut off, wherever that was."""
    for run in list(batch.state.runs.values()):
        for path, progress in list(pipelines(run)):
            if progress.end is not None:
                _end_pipeline(batch, run, path, progress)
    _turn_loops(batch)
    settle(batch)


def _turn_loops(batch: Batch) -> None:
    for run in list(batch.state.runs.values()):
        for path in reversed(list(loop_paths(run))):
            turn(batch, run, path)


def settle(batch: Batch) -> None:
    """Move tokens until nothing moves; then finish if nothing is left."""
    state = batch.state
    while (
        state.status == "running" and state.cancelling is None and state.queued is None
    ):
        token = next(iter(state.tokens.values()), None)
        if (token is not None or state.joining) and not batch.may_move():
            return  # the next batch goes on
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


def pause(batch: Batch, caller: Caller = None) -> None:
    """Nothing new is scheduled; outcomes of what runs are recorded (S-39)."""
    if batch.state.status == "running" and not batch.state.finished:
        batch.emit("workflow.paused", batch.state.execution_id, attributed(caller))


def resume(batch: Batch, caller: Caller = None) -> None:
    """Go on as if never paused: loops fill up again, tokens move."""
    if batch.state.status != "paused":
        return
    deadlines = _held_deadlines(batch)
    payload = {"deadlines": deadlines, **attributed(caller)}
    batch.emit("workflow.resumed", batch.state.execution_id, payload)
    _turn_loops(batch)
    settle(batch)


def _held_deadlines(batch: Batch) -> dict[str, JSON]:
    """Time stands still in a pause: deadlines are so much later (S-39)."""
    state = batch.state
    held = batch.clock - seconds_of(state.paused_at or batch.now)
    deadlines = {run.id: run.deadline for run in state.runs.values()}
    deadlines[state.execution_id] = state.deadline
    return {
        name: rfc3339(seconds_of(moment) + held)
        for name, moment in deadlines.items()
        if moment is not None
    }


def expire(batch: Batch, timer_id: str) -> None:
    """A deadline has passed; whoever ended before it is not concerned (I-34)."""
    if batch.state.status != "running":
        return
    what, _, run_id = timer_id.partition(":")
    if what == SETTLE:
        go_on(batch)
        return
    if what == "execution":
        message = f"the execution was not over at {batch.state.deadline}, its deadline"
        cancel(batch, msgspec.to_builtins(Failure("timeout", message)))
        return
    run = batch.state.runs.get(run_id)
    if run is None or run.ended or run.deadline is None:
        return
    message = f"step '{run.step}' was not over at {run.deadline}, its deadline"
    error = msgspec.to_builtins(Failure("timeout", message, retryable=True))
    end_run(batch, run, error)
    settle(batch)
