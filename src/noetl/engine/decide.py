"""Decisions: each function turns one input into a batch of events."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from noetl.engine.events import (
    EXECUTION_REQUESTED,
    PLAYBOOK_PROCESSED,
    REQUEST_EVALUATED,
    STEP_STARTED,
    WORKFLOW_ADMITTED,
    WORKFLOW_PAUSED,
    WORKFLOW_QUEUED,
    WORKFLOW_RESUMED,
    WORKFLOW_STARTED,
    Caller,
    ExecutionRequested,
    NewToken,
    PlaybookProcessed,
    RequestEvaluated,
    StepStarted,
    WorkflowAdmitted,
    WorkflowPaused,
    WorkflowQueued,
    WorkflowResumed,
    WorkflowStarted,
)
from noetl.engine.ids import Path, trace_id_of
from noetl.engine.limits import deadline_of
from noetl.engine.recorder import Batch, Recorder, token_id
from noetl.engine.reports.accept import Fact, OutOfOrder, check_facts, record
from noetl.engine.runs import (
    Progress,
    Run,
    find_open,
    loop_paths,
    pipelines,
)
from noetl.engine.secrets.given_handles import mask_foreign
from noetl.engine.steps.admission import arrive, fill_join
from noetl.engine.steps.completion import (
    cancel,
    conclude,
    drop_idle,
    end_pipeline,
    end_run,
)
from noetl.engine.steps.concurrency import Concurrency
from noetl.engine.steps.loops import begin_loop, end_iteration, turn
from noetl.engine.steps.routing import fail_step, finish_step
from noetl.engine.tasks.outcome import Failure
from noetl.engine.times import rfc3339, seconds_of
from noetl.engine.values.references import admit
from noetl.engine.waits.signals import deliver
from noetl.errors import ForgedReference
from noetl.types import JSON

SETTLE = "settle"
"""Timer of an execution whose last batch was cut: more tokens are ready to move."""


class Request(msgspec.Struct, frozen=True):
    """A request for an execution; ``workload`` is merged already (WRK-02).

    ``timeout`` is in seconds. ``parent`` describes the calling execution: its id, run
    and action, its depth and the iteration. ``request_key`` identifies the request for
    ever: it has one execution. ``caller`` is the account that sent the request to a
    server, ``initiator`` the account whose rights the execution has. ``concurrency`` is
    the key of which the execution needs a slot. ``warnings`` are messages about inputs
    that the playbook accepts and probably does not mean (S-72). ``labels`` are those of
    the playbook and of the request. ``trace_id`` and ``trace_parent`` are the trace and
    the span of the caller, if there is one.
    """

    execution_id: str
    playbook: dict[str, JSON]
    workload: dict[str, JSON]
    args: dict[str, JSON] = msgspec.field(default_factory=dict)
    ctx: dict[str, JSON] = msgspec.field(default_factory=dict)
    timeout: float | None = None
    parent: dict[str, JSON] | None = None
    trace_id: str | None = None
    trace_parent: str | None = None
    request_key: str | None = None
    caller: dict[str, JSON] | None = None
    concurrency: Concurrency | None = None
    initiator: dict[str, JSON] | None = None
    warnings: tuple[str, ...] = ()
    labels: dict[str, str] = {}


def accept(batch: Batch, request: Request, *, queued: bool = False) -> None:
    """Start an execution, and move its first token.

    A ``queued`` execution does not move until ``admit_queued``. Raises ``OutOfOrder``
    for a log that has begun: another process was first.
    """
    if batch.state.seq:
        raise OutOfOrder(f"execution {request.execution_id} has begun already")
    entry = batch.playbook.entry
    assert entry is not None, "a valid playbook has a step"
    who = _ask(batch, request)
    # Short secrets are not masked here: inputs that happen to equal one would change.
    workload, ctx, args = (
        batch.secrets.redact(given, short=False)
        for given in (request.workload, request.ctx, request.args)
    )
    granted: RequestEvaluated = {
        "playbook": request.playbook,
        "extensions": sorted(batch.playbook.extensions),
    }
    if request.warnings:
        granted["warnings"] = list(request.warnings)
    batch.emit(REQUEST_EVALUATED, who, granted)
    token: NewToken = {
        "token_id": token_id(who, 1),
        "step": entry.name,
        "args": args,
    }
    limit = deadline_of(batch.playbook, request.timeout)
    started: WorkflowStarted = {
        "workload": workload,
        "ctx": ctx,
        "token": token,
        "deadline": None if queued else _deadline(batch, limit),
    }
    if request.concurrency is not None:
        started["concurrency"] = msgspec.to_builtins(request.concurrency)
    batch.emit(WORKFLOW_STARTED, who, started)
    if queued:
        waits: WorkflowQueued = {"time_limit": limit}
        batch.emit(WORKFLOW_QUEUED, who, waits)
    settle(batch)


def admit_queued(batch: Batch) -> None:
    """Admit a queued execution: set its deadline and move its token."""
    state = batch.state
    if state.queued is None or state.finished or state.cancelling is not None:
        return
    deadline = _deadline(batch, state.queued["time_limit"])
    admitted: WorkflowAdmitted = {"deadline": deadline}
    batch.emit(WORKFLOW_ADMITTED, state.execution_id, admitted)
    settle(batch)


def no_decision(batch: Batch) -> None:
    """Decide nothing: used to run after the queued inputs, or to disarm a timer."""


def _deadline(batch: Batch, limit: float | None) -> str | None:
    return rfc3339(batch.clock + limit) if limit is not None else None


def check_request(request: Request) -> dict[str, JSON] | None:
    """Return the error of a request that holds forged references, or None (S-82).

    Applies to triggers and parents as well: their templates may have produced the
    values.
    """
    try:
        for name in ("workload", "ctx", "args"):
            admit(getattr(request, name), name)
    except ForgedReference as error:
        return {"kind": error.kind, "message": error.message, "path": error.path}
    return None


def reject(recorder: Recorder, request: Request, error: dict[str, JSON]) -> None:
    """Record a request that cannot be granted, and its refusal (S-42)."""
    _ask(recorder, request)
    refuse(recorder, request.playbook, error)


def refuse(
    recorder: Recorder, playbook: dict[str, JSON], error: dict[str, JSON]
) -> None:
    """Record why a request was refused, and end the execution."""
    who = recorder.state.execution_id
    refused: RequestEvaluated = {"playbook": playbook, "error": error}
    recorder.emit(REQUEST_EVALUATED, who, refused, status="error")
    failed: PlaybookProcessed = {"status": "failed"}
    recorder.emit(PLAYBOOK_PROCESSED, who, failed, status="error")


def _ask(recorder: Recorder, request: Request) -> str:
    who = recorder.state.execution_id = request.execution_id
    asked: ExecutionRequested = {
        "playbook": request.playbook,
        "trace_id": request.trace_id or trace_id_of(who),
    }
    if request.trace_parent is not None:
        asked["trace_parent"] = request.trace_parent
    if request.parent is not None:
        asked["parent"] = request.parent
    if request.caller is not None:
        asked["caller"] = request.caller
    if request.initiator is not None:
        asked["initiator"] = request.initiator
    if request.labels:
        asked["labels"] = request.labels
    recorder.emit(EXECUTION_REQUESTED, who, asked)
    return who


def report(
    batch: Batch, command_id: str, facts: Sequence[Fact], *, elsewhere: bool = False
) -> bool:
    """Record a worker's facts about one pipeline, and decide what follows from its end.

    With ``elsewhere`` the worker is not trusted: sizes are checked, and handles of
    secrets that it was not given are masked.

    Return whether the worker must leave the pipeline: it has ended, it waits, or
    nothing may be started now. Raises ``OutOfOrder``.
    """
    command = find_open(batch.state.runs, command_id)
    if command is None:
        raise OutOfOrder(f"the pipeline '{command_id}' is not open")
    _, run, path, progress = command
    if elsewhere:
        check_facts(facts)
        facts = mask_foreign(batch, command, facts)
    stop = record(batch, command, facts)
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
    """End the iteration or step of a pipeline that has ended."""
    error = (progress.error or {}) if progress.end == "failed" else None
    if path:
        end_iteration(batch, run, path, error, progress.result, "worker")
    elif error is not None:
        fail_step(batch, run, error, "worker")
    else:
        finish_step(batch, run, progress.result, "worker")


def abandon(batch: Batch, command_id: str, claims: int) -> None:
    """Fail a pipeline that ``claims`` workers took without reporting anything
    (I-20)."""
    command = find_open(batch.state.runs, command_id)
    if command is None:
        return
    run, label = command.run, command.progress.label
    message = (
        f"{claims} workers in a row took '{label}' of step '{run.step}' and reported "
        "nothing: it is not offered to another worker"
    )
    error = {**msgspec.to_builtins(Failure("worker.lost", message)), "task": label}
    end_pipeline(batch, run, command.path, error)
    settle(batch)


def refuse_code(batch: Batch, command_id: str, error: dict[str, JSON]) -> None:
    """End a pipeline that was scheduled before code was switched off for its pool."""
    command = find_open(batch.state.runs, command_id)
    if command is not None:
        end_pipeline(batch, command.run, command.path, error)
        settle(batch)


def continue_after_cut(batch: Batch) -> None:
    """Decide what follows from a log that ends at any point."""
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
    """Move tokens until none can move; then finish if nothing is left."""
    state = batch.state
    while (
        state.status == "running" and state.cancelling is None and state.queued is None
    ):
        token = next(iter(state.tokens.values()), None)
        if (token is not None or state.joining) and not batch.may_move():
            return  # the next batch continues
        if token is None:
            if not state.joining or not _fill_joins(batch):
                break
            continue
        limit = batch.playbook.limits.step_runs
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
    """Begin a run on the server: routing steps and loops."""
    step = batch.playbook.steps[run.step]
    error = batch.refusal(step) if step.tasks else None
    if error is not None:
        fail_step(batch, run, error)
        return
    if step.tasks and step.loop is None:
        return  # a worker begins it
    started: StepStarted = {"tokens": run.tokens}
    batch.emit_step(run, STEP_STARTED, started, "server")
    if step.loop is not None:
        begin_loop(batch, run)
    else:  # S-03: completed without a worker
        finish_step(batch, run, None, "server")


def pause(batch: Batch, caller: Caller = None) -> None:
    """Pause: nothing new is scheduled, outcomes of running calls are recorded
    (S-39). What is being cancelled only ends: it is not paused."""
    state = batch.state
    if state.status == "running" and not state.finished and state.cancelling is None:
        payload: WorkflowPaused = {} if caller is None else {"caller": dict(caller)}
        batch.emit(WORKFLOW_PAUSED, batch.state.execution_id, payload)


def resume(batch: Batch, caller: Caller = None) -> None:
    """Continue after a pause: loops fill up again, tokens move."""
    if batch.state.status != "paused":
        return
    payload: WorkflowResumed = {"deadlines": _held_deadlines(batch)}
    if caller is not None:
        payload["caller"] = dict(caller)
    batch.emit(WORKFLOW_RESUMED, batch.state.execution_id, payload)
    _turn_loops(batch)
    settle(batch)


def _held_deadlines(batch: Batch) -> dict[str, str]:
    """Return the deadlines, postponed by the length of the pause (S-39)."""
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
    """Handle a timer that is due; a run that has ended is not affected (I-34)."""
    if batch.state.status != "running":
        return
    what, _, run_id = timer_id.partition(":")
    if what == SETTLE:
        continue_after_cut(batch)
        return
    if what == "execution":
        deadline = batch.state.deadline
        message = f"the execution had not finished at {deadline}, its deadline"
        cancel(batch, msgspec.to_builtins(Failure("timeout", message)))
        return
    run = batch.state.runs.get(run_id)
    if run is None or run.ended or run.deadline is None:
        return
    message = f"step '{run.step}' had not finished at {run.deadline}, its deadline"
    error = msgspec.to_builtins(Failure("timeout", message, retryable=True))
    end_run(batch, run, error)
    settle(batch)
