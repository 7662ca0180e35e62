"""The log as one document: printed by ``noetl run --json`` and returned by the API."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

import msgspec

from noetl.dsl.playbook_inputs import MAX_WARNINGS
from noetl.engine.endings import TELLING, Endings, Ignored, add_ignored, ignored_error
from noetl.engine.events import (
    Event,
    ExecutionRequested,
    LoopStarted,
    RequestEvaluated,
    StepScheduled,
    StepSkipped,
    TaskResumed,
)
from noetl.engine.evolve import evolve
from noetl.engine.state import State, standing_of, status_of
from noetl.engine.undone import Undone
from noetl.engine.waits.resume import waits_of
from noetl.types import JSON


class StepLine(msgspec.Struct):
    """One step run, or one denied token.

    ``queued_ms`` is the time from its start until its first task began; ``kept`` if it
    had finished before the fork; ``ignored`` if no rule matched some of its errors;
    ``errors`` and ``error_kinds`` are those of failed iterations.
    """

    step: str
    step_run_id: str | None
    status: str
    args: dict[str, JSON]
    result: JSON = None
    error: dict[str, JSON] | None = None
    attempts: int = 0
    started_at: str | None = None
    duration_ms: float | None = None
    iterations: dict[str, int] | None = None
    kept: bool = False
    ignored: Ignored | None = None
    errors: list[dict[str, JSON]] | None = None
    error_kinds: dict[str, int] | None = None
    queued_ms: float | None = None


class QueueTimes:
    """Time that open step runs waited until the first of their tasks began.

    ``task.started`` may be recorded with the outcome of the task: then the worker's own
    time of the begin, in the outcome, is the earlier one.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, str] = {}
        self._began: dict[str, float] = {}

    def take(self, event: Event) -> float | None:
        """Return the milliseconds that the run of this event has waited, if known."""
        run_id, name = event.step_run_id or "", event.name
        if name == "step.scheduled":
            self._waiting[run_id] = event.timestamp
        elif name == "workflow.forked":  # what is open is scheduled again
            self._waiting = dict.fromkeys(
                [*self._waiting, *self._began], event.timestamp
            )
            self._began.clear()
        elif name in ("step.done", "step.failed"):
            self._waiting.pop(run_id, None)
            return self._began.pop(run_id, None)
        elif name in ("task.started", "task.done") and run_id in self._waiting:
            self._note(run_id, event)
        return self._began.get(run_id)

    def _note(self, run_id: str, event: Event) -> None:
        moment, is_done = event.timestamp, event.name == "task.done"
        if is_done:
            meta = event.payload["outcome"].get("meta") or {}
            moment = str(meta.get("started_at", moment))
        waited = elapsed_ms(self._waiting[run_id], moment)
        if waited is not None:
            known = self._began.get(run_id, waited)
            self._began[run_id] = max(0.0, min(known, waited))
        if is_done:
            del self._waiting[run_id]


class Document:
    """A fold of the log for people: it also keeps steps that have finished.

    A caller that has the engine's state already passes the events alone (``note``).
    """

    def __init__(self) -> None:
        self.state = State()
        self.playbook: dict[str, JSON] = {}
        self.steps: list[StepLine] = []
        self.events = 0
        self.endings = Endings()
        self._lines: dict[str, StepLine] = {}
        self._first = self._last = ""
        self._cancelled = False
        self._origin: dict[str, JSON] | None = None
        self._warnings: list[str] = []
        self._undone: Undone | None = None
        self._queue = QueueTimes()

    def take(self, events: Iterable[Event]) -> Document:
        for event in events:
            evolve(self.state, event)
            self._note(event)
        return self

    def note(self, events: Iterable[Event]) -> None:
        for event in events:
            self._note(event)

    def as_json(self, state: State | None = None) -> dict[str, JSON]:
        state = state or self.state
        return {
            "execution_id": state.execution_id,
            "status": status_of(state),
            "playbook": self.playbook,
            "forked_from": self._origin,
            "labels": state.labels,
            "concurrency": standing_of(state),
            "error": state.error,
            "warnings": self._warnings,
            "workload": state.workload,
            "ctx": state.ctx,
            "result": state.result if state.finished else None,
            "steps": [msgspec.to_builtins(line) for line in self.steps],
            **self.endings.as_json(),
            "waits": [msgspec.to_builtins(wait) for wait in waits_of(state)],
            "events": self.events,
            "started_at": self._first,
            "duration_ms": elapsed_ms(self._first, self._last),
        }

    @property
    def last(self) -> str:
        """When the last event was recorded."""
        return self._last

    def _note(self, event: Event) -> None:
        self.events += 1
        self._first = self._first or event.timestamp
        self._last = event.timestamp
        if event.seq == 1:
            self._undone = Undone.of(event)
        if self._undone is not None and self._undone.covers(event):
            return
        if not TELLING.isdisjoint(event.payload):
            self.endings.take(event)
        line = self._lines.get(event.step_run_id or "")
        if event.name == "task.resumed":
            resumed: TaskResumed = event.payload
            self._warn((resumed["answer"] or {}).get("warnings", ()))
        queued = self._queue.take(event)
        if line is not None:
            line.queued_ms = queued
        match event.name:
            case "playbook.execution.requested":
                asked: ExecutionRequested = event.payload
                self.playbook = asked["playbook"]
                self._origin = _lineage(asked.get("fork"))
            case "playbook.request.evaluated":
                evaluated: RequestEvaluated = event.payload
                self._warn(evaluated.get("warnings", ()))
            case "workflow.forked":
                self._fork(event)
            case "workflow.cancelled":
                self._cancelled = True
            case "step.skipped":
                denied: StepSkipped = event.payload
                args = denied["args"]
                self.steps.append(StepLine(event.step or "", None, "skipped", args))
            case "step.scheduled":
                self._schedule(event)
            case "step.done" | "step.failed" if line is not None:
                self._end(line, event)
            case "loop.started" if line is not None and event.iteration_id is None:
                loop: LoopStarted = event.payload
                done = loop["kept"]["done"] if "kept" in loop else 0
                counts = {"total": loop["total"], "done": done}
                line.iterations = {**counts, "failed": 0, "skipped": 0}
            case "loop.done" if line is not None and event.iteration_id is None:
                line.errors = event.payload.get("errors")
                line.error_kinds = event.payload.get("error_kinds")
            case "loop.iteration.done" | "loop.iteration.failed" if line is not None:
                _count(line, event, is_cancelled=self._cancelled)
            case "task.done" if line is not None and (lost := ignored_error(event)):
                line.ignored = add_ignored(line.ignored, lost)
            case "task.started" if line is not None:
                line.attempts = max(line.attempts, event.attempt or 0)
                line.status = "running"
            case "task.suspended" if line is not None and line.iterations is None:
                line.status = "waiting"
            case "task.resumed" if line is not None:
                line.status = "running"

    def _warn(self, warnings: Iterable[str]) -> None:
        """Add warnings about inputs, also about those of children, once each."""
        new = [each for each in warnings if each not in self._warnings]
        self._warnings = [*self._warnings, *new][:MAX_WARNINGS]

    def _fork(self, event: Event) -> None:
        """Restart the running steps at the time of the fork; keep the finished ones."""
        for line in self.steps:
            line.kept = line.status in ("done", "failed", "skipped")
        for line in self._lines.values():
            line.started_at, line.queued_ms = event.timestamp, None

    def _schedule(self, event: Event) -> None:
        run_id = event.step_run_id or ""
        payload: StepScheduled = event.payload
        line = StepLine(event.step or "", run_id, "running", payload["args"])
        line.started_at = event.timestamp
        self._lines[run_id] = line
        self.steps.append(line)

    def _end(self, line: StepLine, event: Event) -> None:
        failed = event.name == "step.failed"
        line.status = "failed" if failed else "done"
        if failed and self._cancelled:
            line.status = "cancelled"
        line.result = event.payload.get("result")
        line.error = event.payload.get("error")
        line.errors = event.payload.get("errors", line.errors)
        line.error_kinds = event.payload.get("error_kinds", line.error_kinds)
        line.duration_ms = elapsed_ms(line.started_at or "", event.timestamp)
        if line.iterations is not None:
            counts = line.iterations
            over = counts["done"] + counts["failed"] + counts.get("cancelled", 0)
            counts["skipped"] = counts["total"] - over
        del self._lines[event.step_run_id or ""]


def _lineage(fork: dict[str, JSON] | None) -> dict[str, JSON] | None:
    if fork is None:
        return None
    return {"execution_id": fork["execution_id"], "seq": fork["seq"]}


def _count(line: StepLine, event: Event, *, is_cancelled: bool) -> None:
    """Count iterations of the outermost loop only; those that were stopped by a
    cancellation have not failed."""
    if line.iterations is None or (event.iteration_id or "").count("/") != 1:
        return
    word = "cancelled" if is_cancelled else "failed"
    if event.name == "loop.iteration.done":
        word = "done"
    line.iterations[word] = line.iterations.get(word, 0) + 1


def interruption(execution_id: str, since: str) -> dict[str, JSON]:
    """Return what documents and listings say of an execution whose process is gone:
    the time of its last event, and the command that continues it."""
    return {"since": since, "resume": f"noetl resume {execution_id}"}


def elapsed_ms(first: str, last: str) -> float | None:
    try:
        span = datetime.fromisoformat(last) - datetime.fromisoformat(first)
    except ValueError:
        return None
    return round(span.total_seconds() * 1000, 3)


def state_document(state: State) -> dict[str, JSON]:
    """Return the state at a point of the log, as ``noetl replay --json`` prints it."""
    everything = msgspec.to_builtins(state, str_keys=True)
    runs = everything["runs"]
    loops = {name: run.pop("loop") for name, run in runs.items() if run.get("loop")}
    return {
        "execution_id": state.execution_id,
        "status": state.status,
        "seq": state.seq,
        "ctx": state.ctx,
        "tokens": everything["tokens"],
        "runs": runs,
        "loops": loops,
    }
