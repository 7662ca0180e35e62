"""Fold of one event into a tally: the changes of counters that it makes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from noetl.dsl.node import shorten
from noetl.engine.events import (
    Event,
    ExecutionRequested,
    Gated,
    LoopStarted,
    MessageReceived,
    NextEvaluated,
    RequestEvaluated,
    StepFailed,
    StepSkipped,
    TaskDone,
    TaskSuspended,
    TokenJoined,
    WorkflowFinished,
    WorkflowForked,
    WorkflowStarted,
)
from noetl.engine.undone import Undone, number_of
from noetl.report.tally import (
    READY,
    RUNNING,
    WAITING,
    Change,
    Failure,
    OpenRun,
    OpenWait,
    Tally,
)
from noetl.types import JSON

MESSAGE_CHARS = 500
_WAKES = frozenset(
    {
        *("task.started", "task.resumed", "task.done", "step.done", "step.failed"),
        *("loop.iteration.done", "loop.iteration.failed"),
    }
)
Changes = Iterator[Change]


def count_event(tally: Tally, event: Event) -> list[Change]:
    """Fold the event into the tally, and return its changes in order."""
    tally.seq, tally.last = event.seq, event.timestamp
    if event.seq == 1:
        tally.first, tally.undone = event.timestamp, Undone.of(event)
    if tally.undone is not None and tally.undone.covers(event):
        return []
    changes: list[Change] = []
    if tally.waits and event.name in _WAKES:
        _wake(tally, event)
    fold = _FOLDS.get(event.name)
    if fold is not None:
        for change in fold(tally, event, event.payload):
            tally.apply(change)
            changes.append(change)
    return changes


def _wake(tally: Tally, event: Event) -> None:
    wait = tally.waits.pop(event.iteration_id or event.step_run_id or "", None)
    run = tally.runs.get(event.step_run_id or "") if wait is not None else None
    if run is not None:
        run.suspended -= 1


# -- the execution ---------------------------------------------------------------


def _requested(tally: Tally, event: Event, payload: ExecutionRequested) -> Changes:
    tally.playbook, tally.parent = payload["playbook"], payload.get("parent")
    fork = payload.get("fork")
    if fork is not None:
        tally.origin = {name: fork[name] for name in ("execution_id", "seq")}
    yield from ()


def _evaluated(tally: Tally, event: Event, payload: RequestEvaluated) -> Changes:
    if "error" in payload:
        tally.failures[""] = _failure(event, payload["error"])
        yield Change("error")


def _started(tally: Tally, event: Event, payload: WorkflowStarted) -> Changes:
    tally.key = (payload.get("concurrency") or {}).get("key")
    yield _enter(tally, payload["token"])


def _enter(tally: Tally, token: Mapping[str, JSON]) -> Change:
    tally.tokens[token["token_id"]] = token["step"]
    return Change("token+", token["step"])


def _queued(tally: Tally, event: Event, payload: JSON) -> Changes:
    tally.queued = event.timestamp
    yield Change("queue")


def _admitted(tally: Tally, event: Event, payload: JSON) -> Changes:
    tally.queued = None
    yield Change("admit")


def _cancelled(tally: Tally, event: Event, payload: Mapping[str, JSON]) -> Changes:
    tally.cancelled, tally.paused_at = True, None
    yield Change("cancel", who=_sender(payload))
    yield from _clear_tokens(tally)


def _clear_tokens(tally: Tally) -> Changes:
    for step, number in Counter(tally.tokens.values()).items():
        yield Change("token-", step, number)
    tally.tokens.clear()


def _paused(tally: Tally, event: Event, payload: Mapping[str, JSON]) -> Changes:
    tally.paused_at = event.timestamp
    yield Change("pause", who=_sender(payload))


def _resumed(tally: Tally, event: Event, payload: Mapping[str, JSON]) -> Changes:
    tally.paused_at = None
    yield Change("resume", who=_sender(payload))


def _sender(payload: Mapping[str, JSON]) -> str | None:
    name = (payload.get("caller") or {}).get("principal")
    return None if name is None else str(name)


def _received(tally: Tally, event: Event, payload: MessageReceived) -> Changes:
    yield Change("signal", who=payload["name"])


def _forked(tally: Tally, event: Event, payload: WorkflowForked) -> Changes:
    """Start open runs again; put tokens back, as logs of earlier versions do."""
    tally.paused_at = tally.queued = None
    tally.waits.clear()
    yield Change("fork")
    for token in payload.get("again", ()):
        if tally.failures.pop(token["failed"], None) is not None:
            yield _enter(tally, token)
    for run in tally.runs.values():
        run.suspended = 0
        if run.phase == WAITING:
            yield Change("wake", run.step, run=run.number)
        if run.phase != READY:
            yield Change("again", run.step, run=run.number)
        run.phase = READY


def _finished(tally: Tally, event: Event, payload: WorkflowFinished) -> Changes:
    tally.queued, tally.paused_at, tally.ended = None, None, True
    yield from _clear_tokens(tally)
    tally.waits.clear()
    yield Change("end", who=payload["status"])


def _processed(tally: Tally, event: Event, payload: JSON) -> Changes:
    tally.ended = True
    yield from ()


# -- tokens and runs -------------------------------------------------------------


def _joined(tally: Tally, event: Event, payload: TokenJoined) -> Changes:
    if payload.get("discarded"):
        yield from _consume(tally, [payload["token_id"]])


def _consume(tally: Tally, tokens: list[str]) -> Changes:
    for token in tokens:
        step = tally.tokens.pop(token, None)
        if step is not None:
            yield Change("token-", step)


def _scheduled(tally: Tally, event: Event, payload: Gated) -> Changes:
    run_id, step = event.step_run_id or "", event.step or ""
    yield from _consume(tally, payload["tokens"])
    run = tally.runs[run_id] = OpenRun(step, number_of(run_id))
    yield Change("ready", step, run=run.number)


def _skipped(tally: Tally, event: Event, payload: StepSkipped) -> Changes:
    yield from _consume(tally, payload["tokens"])
    yield Change("skip", event.step)
    error = payload["admit"].get("error")
    if error is not None:
        tally.failures[event.entity_id] = _failure(event, error)


def _enter_phase(run: OpenRun, phase: int) -> Changes:
    """Yield the changes from the present phase of a run to another."""
    if run.phase == READY:
        yield Change("begin", run.step, run=run.number)
        run.phase = RUNNING
    if run.phase != phase:
        yield Change("wait" if phase == WAITING else "wake", run.step, run=run.number)
        run.phase = phase


def _move(tally: Tally, event: Event, payload: JSON) -> Changes:
    """Begin or wake the run of an event."""
    run = tally.runs.get(event.step_run_id or "")
    if run is not None:
        yield from _enter_phase(run, run.wanted_phase)


def _ended(tally: Tally, event: Event, payload: StepFailed) -> Changes:
    run_id = event.step_run_id or ""
    run = tally.runs.pop(run_id, None)
    if run is None:
        return
    if event.name == "step.failed":
        tally.failures[run_id] = _failure(event, payload["error"], run.attempt)
    if run.suspended:
        for command in [
            name for name, each in tally.waits.items() if each.run == run_id
        ]:
            del tally.waits[command]
    if run.iterations:
        yield Change("loop_stop", run.step, run.iterations, run=run.number)
    yield from _enter_phase(run, RUNNING)
    how = "done" if event.name == "step.done" else "stop" if tally.cancelled else "fail"
    yield Change(how, run.step, run=run.number)


def _routed(tally: Tally, event: Event, payload: NextEvaluated) -> Changes:
    for token in payload["fired"]:
        yield _enter(tally, token)
    run_id = event.entity_id
    if payload["handled"]:
        tally.failures.pop(run_id, None)
    if "error" in payload:
        tally.failures.setdefault(run_id, _failure(event, payload["error"]))


def _failure(event: Event, error: Mapping[str, JSON], attempt: int = 1) -> Failure:
    message = shorten(str(error.get("message", "")), MESSAGE_CHARS)
    task = error.get("task")
    return Failure(
        event.seq,
        event.step,
        None if task is None else str(task),
        event.step_run_id,
        attempt,
        str(error.get("kind", "")),
        message,
    )


# -- tasks and iterations --------------------------------------------------------


def _task_started(tally: Tally, event: Event, payload: JSON) -> Changes:
    run = tally.runs.get(event.step_run_id or "")
    if run is None:
        return
    yield from _enter_phase(run, run.wanted_phase)
    run.attempt = event.attempt or 1
    if run.attempt > 1:
        yield Change("retry", run.step, who=event.task_label, run=run.number)


def _task_suspended(tally: Tally, event: Event, payload: TaskSuspended) -> Changes:
    run_id, child = event.step_run_id or "", payload.get("child") or {}
    run, on = tally.runs.get(run_id), payload["on"]
    tally.children += on == "playbook"
    if run is None:
        return
    command = event.iteration_id or run_id
    run.suspended += command not in tally.waits
    tally.waits[command] = OpenWait(
        run_id,
        run.step,
        event.task_label or "",
        on,
        event.timestamp,
        payload["until"],
        payload.get("signal") or child.get("path"),
        child.get("execution_id"),
    )
    yield from _enter_phase(run, run.wanted_phase)


def _task_done(tally: Tally, event: Event, payload: TaskDone) -> Changes:
    run = tally.runs.get(event.step_run_id or "")
    if run is None:
        return
    yield from _enter_phase(run, run.wanted_phase)
    step, label, number = run.step, event.task_label, run.number
    if event.status == "error":
        yield Change("error", step, who=label, run=number)
        if payload.get("ignored"):
            yield Change("ignored", step, who=label, run=number)
    patch = payload.get("set_ctx")
    if patch:
        op = "refused" if "refused" in payload else "ctx"
        yield Change(op, step, len(patch), label, number)


def _loop_started(tally: Tally, event: Event, payload: LoopStarted) -> Changes:
    run = tally.runs.get(event.step_run_id or "")
    if run is None or event.iteration_id is not None:
        return
    run.pipelines = 0
    yield from _enter_phase(run, RUNNING)
    yield Change("loop_total", run.step, payload["total"], run=run.number)
    if "kept" in payload:
        yield Change("loop_kept", run.step, payload["kept"]["done"], run=run.number)


def _iteration_started(tally: Tally, event: Event, payload: JSON) -> Changes:
    run, depth = tally.runs.get(event.step_run_id or ""), _depth(event)
    if run is None:
        return
    if "first" in payload:
        run.depth = depth
        run.pipelines += 1
    yield from _enter_phase(run, run.wanted_phase)
    if depth == 1:
        run.iterations += 1
        yield Change("loop_begin", run.step, run=run.number)


def _iteration_ended(tally: Tally, event: Event, payload: JSON) -> Changes:
    run, depth = tally.runs.get(event.step_run_id or ""), _depth(event)
    if run is None:
        return
    run.pipelines -= depth == run.depth
    yield from _enter_phase(run, run.wanted_phase)
    if depth != 1:
        return
    run.iterations -= 1
    failed = "loop_stop" if tally.cancelled else "loop_fail"
    how = "loop_done" if event.name == "loop.iteration.done" else failed
    yield Change(how, run.step, run=run.number)


def _depth(event: Event) -> int:
    return (event.iteration_id or "").count("/")


_FOLDS: dict[str, Callable[[Tally, Event, Any], Changes]] = {
    "playbook.execution.requested": _requested,
    "playbook.request.evaluated": _evaluated,
    "workflow.started": _started,
    "workflow.queued": _queued,
    "workflow.admitted": _admitted,
    "workflow.cancelled": _cancelled,
    "workflow.paused": _paused,
    "workflow.resumed": _resumed,
    "workflow.forked": _forked,
    "workflow.finished": _finished,
    "playbook.processed": _processed,
    "message.received": _received,
    "token.joined": _joined,
    "step.scheduled": _scheduled,
    "step.skipped": _skipped,
    "step.started": _move,
    "step.done": _ended,
    "step.failed": _ended,
    "next.evaluated": _routed,
    "task.started": _task_started,
    "task.suspended": _task_suspended,
    "task.resumed": _move,
    "task.done": _task_done,
    "loop.started": _loop_started,
    "loop.iteration.started": _iteration_started,
    "loop.iteration.done": _iteration_ended,
    "loop.iteration.failed": _iteration_ended,
}
