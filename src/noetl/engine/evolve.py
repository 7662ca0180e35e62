"""State + event → state: copies what the event says, and chooses nothing.

It changes the state in place: O(1) per event, whatever the size of the execution.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from noetl.engine.callers import unattributed
from noetl.engine.context import apply_patch
from noetl.engine.events import Event, view
from noetl.engine.progress import (
    begin,
    note_done,
    note_forked,
    note_started,
    note_suspended,
)
from noetl.engine.references import holds_reference, is_reference
from noetl.engine.runs import find_loop, find_progress, path_of, pipelines
from noetl.engine.scope import iteration_scope
from noetl.engine.state import Iteration, LoopState, Run, State, Token
from noetl.types import JSON

RESULTS_LIMIT = 48 * 1024  # what loop.done can carry of its results, encoded


def evolve(state: State, event: Event) -> State:
    """Fold one event. Names that nothing folds change only the position."""
    state.seq = event.seq
    if "spilled" in event.payload:
        state.spilled = True
    fold = _FOLDS.get(event.name)
    if fold is not None:
        fold(state, event)
    return state


def replay(events: Iterable[Event], state: State | None = None) -> State:
    """The state after these events, from the beginning or from a snapshot."""
    state = state or State()
    for event in events:
        evolve(state, event)
    return state


def _run(state: State, event: Event) -> Run:
    return state.runs[event.step_run_id or ""]


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
    _enqueue(state, event.payload["token"], None, None)


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
        run.progress = begin(payload["first"], None)
    state.run_count += 1
    state.runs[run_id] = run


def _task_started(state: State, event: Event) -> None:
    _wake(state, event)
    note_started(find_progress(_run(state, event), path_of(event.iteration_id)))


def _task_suspended(state: State, event: Event) -> None:
    state.suspended[event.iteration_id or event.step_run_id or ""] = event.payload["on"]
    progress = find_progress(_run(state, event), path_of(event.iteration_id))
    note_suspended(progress, event.payload)


def _task_resumed(state: State, event: Event) -> None:
    _wake(state, event)
    progress = find_progress(_run(state, event), path_of(event.iteration_id))
    if progress.waiting is not None:
        progress.waiting.answer = event.payload["answer"]
    if not state.spilled and holds_reference(event.payload["answer"]):
        state.spilled = True
    if "message" in event.payload:
        number = event.payload["message"]
        state.messages = [each for each in state.messages if each["seq"] != number]


def _wake(state: State, event: Event) -> None:
    if state.suspended:
        state.suspended.pop(event.iteration_id or event.step_run_id or "", None)


def _received(state: State, event: Event) -> None:
    state.messages.append({"seq": event.seq, **unattributed(event.payload)})


def _task_done(state: State, event: Event) -> None:
    _wake(state, event)
    run, payload = _run(state, event), event.payload
    patch = payload.get("set_ctx")
    if patch and "refused" not in payload:
        state.ctx = apply_patch(state.ctx, patch)
        if event.iteration_id is not None:
            for key in patch:
                run.ctx_writers[key] = event.iteration_id
    note_done(find_progress(run, path_of(event.iteration_id)), payload)


def _step_done(state: State, event: Event) -> None:
    run = _run(state, event)
    if not run.routed:
        state.result_before, state.result_of = state.result, run.id
        state.result = event.payload["result"]
    _end(state, run, event)


def _step_failed(state: State, event: Event) -> None:
    run = _run(state, event)
    state.failures[run.id] = {**event.payload["error"], "step": run.step}
    _end(state, run, event)


def _end(state: State, run: Run, event: Event) -> None:
    """The run is over once its arcs were judged; without arcs, or if a loop's end
    has fired them already, or nothing is started any more, that is now."""
    _wake(state, event)
    run.progress = run.loop = None
    run.boundary, run.ended = view(event), True
    if run.routed or not run.has_arcs or state.cancelling is not None:
        del state.runs[run.id]


def _evaluated(state: State, event: Event) -> None:
    run, payload = _run(state, event), event.payload
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


# -- loops -----------------------------------------------------------------------


def _loop_started(state: State, event: Event) -> None:
    run, payload = _run(state, event), event.payload
    path = path_of(event.iteration_id)
    loop = LoopState(
        payload["iterator"], payload["total"], payload["items"], first_seq=event.seq
    )
    if path:
        find_loop(run, path[:-1]).open[path[-1]].loop = loop
    else:
        run.loop = loop


def _iteration_started(state: State, event: Event) -> None:
    run, path = _run(state, event), path_of(event.iteration_id)
    loop = find_loop(run, path[:-1])
    index, first = path[-1], event.payload.get("first")
    parent = state.outer
    if path[1:]:
        parent = find_loop(run, path[:-2]).open[path[-2]].scope
    scope = iteration_scope(loop.iterator, event.payload["item"], index, parent)
    progress = begin(first, scope) if first is not None else None
    loop.open[index] = Iteration(scope, progress)
    loop.next = index + 1


def _iteration_done(state: State, event: Event) -> None:
    _wake(state, event)
    path = path_of(event.iteration_id)
    loop = find_loop(_run(state, event), path[:-1])
    del loop.open[path[-1]]
    loop.done += 1
    _keep(loop, path[-1], event.payload["result"], event.payload["size"])


def _keep(loop: LoopState, index: int, result: JSON, size: int) -> None:
    """Results wait for the loop's end, until they are too large to travel with it."""
    loop.results_size += size + 1  # and a comma
    if loop.results is None:
        return
    if loop.results_size > RESULTS_LIMIT:
        loop.results = None
    else:
        loop.results[index] = result


def _iteration_failed(state: State, event: Event) -> None:
    _wake(state, event)
    path = path_of(event.iteration_id)
    loop = find_loop(_run(state, event), path[:-1])
    del loop.open[path[-1]]
    loop.failed += 1
    _keep(loop, path[-1], None, len("null"))
    if loop.error is None:
        # The outermost index, and the id of the innermost one (S-11).
        about = {"iteration_id": event.iteration_id, **event.payload["error"]}
        loop.error = {**about, "iteration": path[-1]}


def _loop_done(state: State, event: Event) -> None:
    if is_reference(event.payload["results"]):
        state.spilled = True
    run, path = _run(state, event), path_of(event.iteration_id)
    if path:
        find_loop(run, path[:-1]).open[path[-1]].loop = None
    else:
        run.boundary = view(event)


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
    state.suspended.clear()
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
    state.status = event.payload["status"]
    state.error = event.payload["error"]
    state.result = event.payload["result"]
    state.tokens.clear()
    state.joining.clear()
    state.late.clear()
    state.runs.clear()
    state.suspended.clear()
    state.messages.clear()


def _processed(state: State, event: Event) -> None:
    state.finished = True


_FOLDS: dict[str, Callable[[State, Event], None]] = {
    "playbook.execution.requested": _requested,
    "playbook.request.evaluated": _request_evaluated,
    "workflow.started": _started,
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
    "loop.started": _loop_started,
    "loop.iteration.started": _iteration_started,
    "loop.iteration.done": _iteration_done,
    "loop.iteration.failed": _iteration_failed,
    "loop.done": _loop_done,
    "workflow.cancelled": _cancelled,
    "workflow.paused": _paused,
    "workflow.resumed": _resumed,
    "workflow.forked": _forked,
    "workflow.finished": _finished,
    "playbook.processed": _processed,
}
