"""State + event → state: copies what the event says, and chooses nothing.

It changes the state in place: O(1) per event, whatever the size of the execution.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from noetl.engine.callers import unattributed
from noetl.engine.concurrency import Concurrency
from noetl.engine.context import apply_patch
from noetl.engine.events import TRIGGERS, Event, view
from noetl.engine.evolve_loops import (
    iteration_done,
    iteration_failed,
    iteration_started,
    loop_done,
    loop_started,
    run_in,
    wake,
)
from noetl.engine.progress import (
    begin,
    note_done,
    note_forked,
    note_started,
    note_suspended,
)
from noetl.engine.references import holds_reference
from noetl.engine.runs import find_progress, path_of, pipelines, run_of
from noetl.engine.state import Run, State, Token
from noetl.types import JSON


def evolve(state: State, event: Event) -> State:
    """Fold one event. Names that nothing folds change only the position."""
    state.seq = event.seq
    if "spilled" in event.payload:
        state.spilled = True
    fold = _FOLDS.get(event.name)
    if fold is not None:
        fold(state, event)
    if state.listeners and event.name in TRIGGERS:
        _note(state, event)
    return state


def _note(state: State, event: Event) -> None:
    """Who reacts to events and is busy finds this one when it waits again."""
    for command_id, missed in state.listeners.items():
        if command_id not in state.suspended and event.step_run_id != run_of(
            command_id
        ):
            missed.append(view(event))


def replay(events: Iterable[Event], state: State | None = None) -> State:
    """The state after these events, from the beginning or from a snapshot."""
    state = state or State()
    for event in events:
        evolve(state, event)
    return state


# -- the request, the tokens -----------------------------------------------------


def _requested(state: State, event: Event) -> None:
    state.execution_id = event.execution_id
    state.started_at = event.timestamp
    state.trace_id = event.payload["trace_id"]
    state.parent = event.payload.get("parent")
    if state.parent is not None:
        state.depth = state.parent["depth"] + 1
        state.outer = state.parent["iter"]
        state.spilled = holds_reference(state.outer)
    state.fork = event.payload.get("fork")
    if state.fork is not None:
        state.depth, state.outer = state.fork["depth"], state.fork["iter"]
        state.spilled = state.spilled or holds_reference(state.outer)


def _request_evaluated(state: State, event: Event) -> None:
    if "error" in event.payload:
        state.status, state.error = "failed", event.payload["error"]


def _started(state: State, event: Event) -> None:
    state.workload = event.payload["workload"]
    state.ctx = event.payload["ctx"]
    state.deadline = event.payload["deadline"]
    if "concurrency" in event.payload:
        state.concurrency = Concurrency(**event.payload["concurrency"])
    _enqueue(state, event.payload["token"], None, None)


def _queued(state: State, event: Event) -> None:
    state.queued = event.payload


def _admitted(state: State, event: Event) -> None:
    state.queued, state.deadline = None, event.payload["deadline"]


def _enqueue(
    state: State, body: JSON, origin: str | None, sent_by: dict[str, JSON] | None
) -> None:
    state.token_count += 1
    token = Token(body["token_id"], body["step"], body["args"], origin, sent_by)
    state.tokens[token.id] = token


def _joined(state: State, event: Event) -> None:
    token, source = state.tokens.pop(event.payload["token_id"]), event.payload["from"]
    if event.payload.get("discarded"):
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


def _consume(state: State, event: Event) -> None:
    """Take the tokens that the event names, wherever they wait."""
    step = event.step or ""
    queues = state.joining.get(step, {})
    for token_id in event.payload["tokens"]:
        if state.tokens.pop(token_id, None) is None:
            _take_waiting(queues, token_id)
    if step in state.joining and not queues:
        del state.joining[step]
    for source in event.payload.get("late", ()):
        _count_late(state, step, source, 1)


def _skipped(state: State, event: Event) -> None:
    """A gate that could not be asked denies, and fails the execution (S-32)."""
    _consume(state, event)
    error = event.payload["admit"].get("error")
    if error is not None:
        state.failures[event.entity_id] = {**error, "step": event.step}


def _take_waiting(queues: dict[str, list[Token]], token_id: str) -> None:
    for source, queue in queues.items():
        if queue[0].id == token_id:
            queue.pop(0)
            if not queue:
                del queues[source]
            return
    raise KeyError(token_id)


# -- step runs and their pipelines -----------------------------------------------


def _scheduled(state: State, event: Event) -> None:
    _consume(state, event)
    run_id, payload = event.step_run_id or "", event.payload
    run = Run(
        run_id,
        event.step or "",
        payload["args"],
        payload["has_arcs"],
        payload["tokens"],
        deadline=payload.get("deadline"),
    )
    if "first" in payload:
        run.progress = begin(payload["first"], None, payload.get("keep", ()))
    state.run_count += 1
    state.runs[run_id] = run


def _task_started(state: State, event: Event) -> None:
    wake(state, event)
    note_started(find_progress(run_in(state, event), path_of(event.iteration_id)))


def _task_suspended(state: State, event: Event) -> None:
    command_id = event.iteration_id or event.step_run_id or ""
    state.suspended[command_id] = event.payload["on"]
    if event.payload["on"] == "event":
        state.listeners.setdefault(command_id, [])
    progress = find_progress(run_in(state, event), path_of(event.iteration_id))
    note_suspended(progress, event.payload, event.timestamp)


def _task_resumed(state: State, event: Event) -> None:
    wake(state, event)
    progress = find_progress(run_in(state, event), path_of(event.iteration_id))
    if progress.waiting is not None:
        progress.waiting.answer = event.payload["answer"]
    if not state.spilled and holds_reference(event.payload["answer"]):
        state.spilled = True
    if "message" in event.payload:
        number = event.payload["message"]
        state.messages = [each for each in state.messages if each["seq"] != number]
    if "missed" in event.payload:
        command_id = event.iteration_id or event.step_run_id or ""
        del state.listeners[command_id][: event.payload["missed"]]


def _received(state: State, event: Event) -> None:
    state.messages.append({"seq": event.seq, **unattributed(event.payload)})


def _task_done(state: State, event: Event) -> None:
    wake(state, event)
    run, payload = run_in(state, event), event.payload
    patch = payload.get("set_ctx")
    if patch and "refused" not in payload:
        state.ctx = apply_patch(state.ctx, patch)
        if event.iteration_id is not None:
            for key in patch:
                run.ctx_writers[key] = event.iteration_id
    note_done(find_progress(run, path_of(event.iteration_id)), payload)


def _step_done(state: State, event: Event) -> None:
    run = run_in(state, event)
    if not run.routed:
        state.result_before, state.result_of = state.result, run.id
        state.result = event.payload["result"]
    _end(state, run, event)


def _step_failed(state: State, event: Event) -> None:
    run = run_in(state, event)
    state.failures[run.id] = {**event.payload["error"], "step": run.step}
    _end(state, run, event)


def _end(state: State, run: Run, event: Event) -> None:
    """The run is over once its arcs were judged; without arcs, or if a loop's end
    has fired them already, or nothing is started any more, that is now."""
    wake(state, event)
    state.listeners.pop(run.id, None)
    if run.progress is not None:
        run.outcomes = run.progress.outcomes
    run.progress = run.loop = None
    run.boundary, run.ended = view(event), True
    if run.routed or not run.has_arcs or state.cancelling is not None:
        del state.runs[run.id]


def _evaluated(state: State, event: Event) -> None:
    run, payload = run_in(state, event), event.payload
    for fired in payload["fired"]:
        _enqueue(state, fired, run.step, run.boundary)
    if payload["fired"]:
        run.routed = True
        if state.result_of == run.id:
            state.result, state.result_of = state.result_before, None
    if payload["handled"]:
        state.failures.pop(run.id, None)
    if "error" in payload:
        state.failures.setdefault(run.id, {**payload["error"], "step": run.step})
    run.boundary = None
    if run.ended:
        del state.runs[run.id]


# -- the execution ---------------------------------------------------------------


def _cancelled(state: State, event: Event) -> None:
    state.cancelling, state.status = unattributed(event.payload), "running"
    state.tokens.clear()
    state.joining.clear()
    state.late.clear()


def _paused(state: State, event: Event) -> None:
    state.status, state.paused_at = "paused", event.timestamp


def _resumed(state: State, event: Event) -> None:
    state.status, state.paused_at = "running", None
    for name, moment in event.payload["deadlines"].items():
        if name in state.runs:
            state.runs[name].deadline = moment
        else:
            state.deadline = moment


def _forked(state: State, event: Event) -> None:
    """What the kept events left under way begins again, with the edits."""
    payload = event.payload
    state.status, state.paused_at = "running", None
    state.workload = payload.get("workload", state.workload)
    state.ctx = apply_patch(state.ctx, payload.get("set_ctx", {}))
    state.deadline = payload["deadline"]
    state.concurrency = state.queued = None  # its origin's places are not its own
    state.suspended.clear()
    state.listeners.clear()
    for token in payload.get("again", ()):
        state.failures.pop(token["failed"], None)
        _enqueue(state, token, None, token["event"])
    steps = payload.get("steps", {})
    for run in state.runs.values():
        step = steps.get(run.step, {"has_arcs": run.has_arcs, "first": None})
        run.deadline = payload["deadlines"].get(run.id)
        run.has_arcs = step["has_arcs"]
        for _, progress in pipelines(run):
            note_forked(progress, step["first"])


def _finished(state: State, event: Event) -> None:
    state.status, state.queued = event.payload["status"], None
    state.error = event.payload["error"]
    state.result = event.payload["result"]
    state.tokens.clear()
    state.joining.clear()
    state.late.clear()
    state.runs.clear()
    state.suspended.clear()
    state.messages.clear()
    state.listeners.clear()


def _processed(state: State, event: Event) -> None:
    state.finished = True


_FOLDS: dict[str, Callable[[State, Event], None]] = {
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
