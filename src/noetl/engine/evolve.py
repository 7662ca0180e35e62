"""Folding: state and event in, state out. No decisions are made here.

The state is changed in place: O(1) per event, whatever the size of the execution.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from noetl.engine import runs
from noetl.engine.events import (
    TRIGGERS,
    Event,
    ExecutionRequested,
    Gated,
    MessageReceived,
    NewToken,
    NextEvaluated,
    PlaybookProcessed,
    RequestEvaluated,
    StepDone,
    StepFailed,
    StepScheduled,
    StepSkipped,
    TaskDone,
    TaskResumed,
    TaskStarted,
    TaskSuspended,
    TokenJoined,
    WorkflowAdmitted,
    WorkflowCancelled,
    WorkflowFinished,
    WorkflowForked,
    WorkflowPaused,
    WorkflowQueued,
    WorkflowResumed,
    WorkflowStarted,
    unattributed,
)
from noetl.engine.evolve_loops import (
    iteration_done,
    iteration_failed,
    iteration_started,
    loop_done,
    loop_started,
    note_undone,
)
from noetl.engine.runs import Progress, Run, path_of, run_of
from noetl.engine.state import State, Token, take_waiting
from noetl.engine.steps.concurrency import Concurrency
from noetl.engine.tasks.scope import apply_patch, view
from noetl.engine.undone import Undone
from noetl.engine.values.references import holds_reference
from noetl.types import JSON

_WAKES = frozenset(
    {
        *("task.started", "task.resumed", "task.done", "step.done", "step.failed"),
        *("loop.iteration.done", "loop.iteration.failed"),
    }
)
"""Events after which their pipeline is no longer suspended."""


def evolve(state: State, event: Event) -> State:
    """Fold one event. An event without a fold changes only the position."""
    state.seq = event.seq
    payload = event.payload
    if "spilled" in payload:
        state.spilled = True
    if state.undone is not None and state.undone.covers(event):
        note_undone(state, event)
        return state
    if state.suspended and event.name in _WAKES:
        state.suspended.pop(event.iteration_id or event.step_run_id or "", None)
    fold = _FOLDS.get(event.name)
    if fold is not None:
        fold(state, event, payload)
    if state.listeners and event.name in TRIGGERS:
        _note(state, event)
    return state


def _note(state: State, event: Event) -> None:
    """Keep the event for listeners that are busy: it is offered when they wait
    again."""
    for command_id, missed in state.listeners.items():
        if command_id not in state.suspended and event.step_run_id != run_of(
            command_id
        ):
            missed.append(view(event))


def replay(events: Iterable[Event], state: State | None = None) -> State:
    """Return the state after these events, from the beginning or from a snapshot."""
    state = state or State()
    for event in events:
        evolve(state, event)
    return state


# -- the request, the tokens -----------------------------------------------------


def _requested(state: State, event: Event, payload: ExecutionRequested) -> None:
    state.execution_id, state.started_at = event.execution_id, event.timestamp
    state.trace_id, state.fork = payload["trace_id"], payload.get("fork")
    state.parent, state.labels = payload.get("parent"), payload.get("labels", {})
    state.trigger = payload.get("caller", {}).get("trigger")
    if state.parent is not None:
        state.depth = state.parent["depth"] + 1
        state.outer = state.parent["iter"]
        state.spilled = holds_reference(state.outer)
    if state.fork is not None:
        state.depth, state.outer = state.fork["depth"], state.fork["iter"]
        state.spilled = state.spilled or holds_reference(state.outer)
        state.undone = Undone.of(event)


def _request_evaluated(state: State, event: Event, payload: RequestEvaluated) -> None:
    state.warnings = payload.get("warnings", [])
    if "error" in payload:
        state.status, state.error = "failed", payload["error"]


def _started(state: State, event: Event, payload: WorkflowStarted) -> None:
    state.workload = payload["workload"]
    state.ctx = payload["ctx"]
    state.deadline = payload["deadline"]
    if "concurrency" in payload:
        state.concurrency = Concurrency(**payload["concurrency"])
    state.reached = {}
    _enqueue(state, payload["token"], None, None)


def _queued(state: State, event: Event, payload: WorkflowQueued) -> None:
    state.queued = event.payload


def _admitted(state: State, event: Event, payload: WorkflowAdmitted) -> None:
    state.queued, state.deadline = None, payload["deadline"]


def _enqueue(
    state: State, body: NewToken, origin: str | None, sent_by: dict[str, JSON] | None
) -> None:
    state.token_count += 1
    token = Token(body["token_id"], body["step"], body["args"], origin, sent_by)
    state.tokens[token.id] = token
    if state.reached is not None:
        state.reached[token.step] = True


def _joined(state: State, event: Event, payload: TokenJoined) -> None:
    token, source = state.tokens.pop(payload["token_id"]), payload["from"]
    if payload.get("discarded"):
        _count_late(state, token.step, source, -1)
        return
    state.joining.setdefault(token.step, {}).setdefault(source, []).append(token)


def _count_late(state: State, step: str, source: str, change: int) -> None:
    late = state.late.setdefault(step, {})
    late[source] = late.get(source, 0) + change
    if not late[source]:
        del late[source]
    if not late:
        del state.late[step]


def _consume(state: State, event: Event, payload: Gated) -> None:
    """Remove the tokens that the event names from their queues."""
    step = event.step or ""
    queues = state.joining.get(step, {})
    for token_id in payload["tokens"]:
        if state.tokens.pop(token_id, None) is None:
            take_waiting(queues, token_id)
    if step in state.joining and not queues:
        del state.joining[step]
    for source in payload.get("late", ()):
        _count_late(state, step, source, 1)


def _skipped(state: State, event: Event, payload: StepSkipped) -> None:
    """Fold a denial; a gate that could not be evaluated fails the execution (S-32)."""
    _consume(state, event, payload)
    error = payload["admit"].get("error")
    if error is not None:
        state.failures[event.entity_id] = {**error, "step": event.step}


# -- step runs and their pipelines -----------------------------------------------


def _scheduled(state: State, event: Event, payload: StepScheduled) -> None:
    _consume(state, event, payload)
    run_id = event.step_run_id or ""
    run = Run(
        run_id,
        event.step or "",
        payload["args"],
        payload["has_arcs"],
        payload["tokens"],
        deadline=payload.get("deadline"),
    )
    for token in payload["tokens"] if state.kept else ():
        run.kept = state.kept.pop(token, run.kept)
    if "first" in payload:
        run.progress = runs.begin(payload["first"], None, payload.get("keep", ()))
    state.run_count += 1
    state.runs[run_id] = run


def _progress(state: State, event: Event) -> Progress:
    """Return the position of the pipeline that an event belongs to."""
    run = state.runs[event.step_run_id or ""]
    return runs.find_progress(run, path_of(event.iteration_id))


def _task_started(state: State, event: Event, payload: TaskStarted) -> None:
    runs.note_started(_progress(state, event))


def _task_suspended(state: State, event: Event, payload: TaskSuspended) -> None:
    command_id = event.iteration_id or event.step_run_id or ""
    state.suspended[command_id] = payload["on"]
    if payload["on"] == "event":
        state.listeners.setdefault(command_id, [])
    runs.note_suspended(_progress(state, event), payload, event.timestamp)


def _task_resumed(state: State, event: Event, payload: TaskResumed) -> None:
    progress = _progress(state, event)
    if progress.waiting is not None:
        progress.waiting.answer = payload["answer"]
    if not state.spilled and holds_reference(payload["answer"]):
        state.spilled = True
    if "message" in payload:
        number = payload["message"]
        state.messages = [each for each in state.messages if each["seq"] != number]
    if "missed" in payload:
        command_id = event.iteration_id or event.step_run_id or ""
        del state.listeners[command_id][: payload["missed"]]


def _received(state: State, event: Event, payload: MessageReceived) -> None:
    state.messages.append({"seq": event.seq, **unattributed(payload)})


def _task_done(state: State, event: Event, payload: TaskDone) -> None:
    patch = payload.get("set_ctx")
    if patch and "refused" not in payload:
        state.ctx = apply_patch(state.ctx, patch)
        if event.iteration_id is not None:
            writers = state.runs[event.step_run_id or ""].ctx_writers
            writers.update(dict.fromkeys(patch, event.iteration_id))
    if payload.get("ignored"):
        state.ignored += 1
    runs.note_done(_progress(state, event), payload)


def _step_done(state: State, event: Event, payload: StepDone) -> None:
    run = state.runs[event.entity_id]
    if not run.routed:
        state.result_before, state.result_of = state.result, run.id
        state.result = payload["result"]
    _end(state, run, event)


def _step_failed(state: State, event: Event, payload: StepFailed) -> None:
    run = state.runs[event.entity_id]
    state.failures[run.id] = {**payload["error"], "step": run.step}
    _end(state, run, event)


def _end(state: State, run: Run, event: Event) -> None:
    """Remove the run, unless its arcs have yet to be evaluated. It is removed at once
    without arcs, after a loop that has fired them, and while nothing may start."""
    state.listeners.pop(run.id, None)
    if run.progress is not None:
        run.outcomes = run.progress.outcomes
    run.progress = run.loop = None
    run.boundary, run.ended = view(event), True
    if run.routed or not run.has_arcs or state.cancelling is not None:
        del state.runs[run.id]


def _evaluated(state: State, event: Event, payload: NextEvaluated) -> None:
    run = state.runs[event.entity_id]
    for fired in payload["fired"]:
        _enqueue(state, fired, run.step, run.boundary)
    if payload["fired"]:
        run.routed = True
        if state.result_of == run.id:
            state.result, state.result_of = state.result_before, None
    state.unfired.update(dict.fromkeys(payload.get("unfired", ()), True))
    if payload["handled"]:
        state.failures.pop(run.id, None)
    if "error" in payload:
        state.failures.setdefault(run.id, {**payload["error"], "step": run.step})
    run.boundary = None
    if run.ended:
        del state.runs[run.id]


# -- the execution ---------------------------------------------------------------


def _cancelled(state: State, event: Event, payload: WorkflowCancelled) -> None:
    state.cancelling, state.status = unattributed(payload), "running"
    state.tokens.clear()
    state.joining.clear()
    state.late.clear()


def _paused(state: State, event: Event, payload: WorkflowPaused) -> None:
    state.status, state.paused_at = "paused", event.timestamp


def _resumed(state: State, event: Event, payload: WorkflowResumed) -> None:
    state.status, state.paused_at = "running", None
    for name, moment in payload["deadlines"].items():
        if name in state.runs:
            state.runs[name].deadline = moment
        else:
            state.deadline = moment


def _forked(state: State, event: Event, payload: WorkflowForked) -> None:
    """Restart what the kept events left running, with the edits of the fork."""
    state.status, state.paused_at = "running", None
    state.workload = payload.get("workload", state.workload)
    state.ctx = apply_patch(state.ctx, payload.get("set_ctx", {}))
    state.deadline = payload["deadline"]
    state.concurrency = state.queued = None  # the origin keeps its slot
    state.suspended.clear()
    state.listeners.clear()
    state.edited = not payload.keys().isdisjoint(("workload", "set_ctx", "playbook"))
    for token in payload.get("again", ()):
        if state.failures.pop(token["failed"], None) is None:
            state.token_count += 1  # the failure is undone
        else:
            _enqueue(state, token, None, token["event"])
    steps = payload.get("steps", {})
    for run in state.runs.values():
        step = steps.get(run.step, {"has_arcs": run.has_arcs, "first": None})
        run.deadline = payload["deadlines"].get(run.id)
        run.has_arcs = step["has_arcs"]
        for _, progress in runs.pipelines(run):
            runs.note_forked(progress, step["first"])


def _finished(state: State, event: Event, payload: WorkflowFinished) -> None:
    state.status, state.queued = payload["status"], None
    state.error = payload["error"]
    state.result = payload["result"]
    state.not_reached = payload.get("not_reached", {}).get("count", 0)
    state.tokens.clear()
    state.joining.clear()
    state.late.clear()
    state.runs.clear()
    state.suspended.clear()
    state.messages.clear()
    state.listeners.clear()


def _processed(state: State, event: Event, payload: PlaybookProcessed) -> None:
    state.finished = True


_FOLDS: dict[str, Callable[[State, Event, Any], None]] = {
    "playbook.execution.requested": _requested,
    "playbook.request.evaluated": _request_evaluated,
    "workflow.started": _started,
    "workflow.queued": _queued,
    "workflow.admitted": _admitted,
    "token.joined": _joined,
    "step.scheduled": _scheduled,
    "step.skipped": _skipped,
    "task.started": _task_started,
    "task.suspended": _task_suspended,
    "task.resumed": _task_resumed,
    "message.received": _received,
    "task.done": _task_done,
    "step.done": _step_done,
    "step.failed": _step_failed,
    "next.evaluated": _evaluated,
    "loop.started": loop_started,
    "loop.iteration.started": iteration_started,
    "loop.iteration.done": iteration_done,
    "loop.iteration.failed": iteration_failed,
    "loop.done": loop_done,
    "workflow.cancelled": _cancelled,
    "workflow.paused": _paused,
    "workflow.resumed": _resumed,
    "workflow.forked": _forked,
    "workflow.finished": _finished,
    "playbook.processed": _processed,
}
