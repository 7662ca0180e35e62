"""Run of a step on the page: calls, iterations, decisions."""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Iterator
from math import nan
from typing import Generic, TypeVar

from noetl.engine.events import Event
from noetl.engine.runs import path_of
from noetl.engine.times import seconds_of
from noetl.types import JSON

CALLS = (12, 6)
ROUTINGS = (3, 2)
TRAILS = 10
LOGS = 2_000
LOG_LINES = (50, 50)
LOG_WIDTH = 400
FAILED_TRAILS = 12

T = TypeVar("T")


class Sample(Generic[T]):
    """Bounded sample: ``head`` first items, ``tail`` last ones, ``marked`` in
    between."""

    def __init__(self, head: int, tail: int, marked: int = 0) -> None:
        self.count = 0
        self._head: dict[int, T] = {}
        self._tail: deque[tuple[int, T]] = deque(maxlen=tail)
        self._marked: dict[int, T] = {}
        self._most = (head, marked)

    def add(self, item: T) -> int:
        """Add an item; return its number, by which it can be marked."""
        number = self.count
        self.count += 1
        if number < self._most[0]:
            self._head[number] = item
        else:
            self._tail.append((number, item))
        return number

    def mark(self, number: int, item: T) -> None:
        """Keep this item at any position; the first marked items are kept."""
        if number not in self._head and len(self._marked) < self._most[1]:
            self._marked[number] = item

    def kept(self) -> dict[int, T]:
        """Kept items by number, in order."""
        found = {**self._head, **self._marked, **dict(self._tail)}
        return dict(sorted(found.items()))

    def parts(self) -> Iterator[tuple[int, T | None]]:
        """Yield the kept items in order; ``(n, None)`` where n were left out."""
        expected = 0
        for number, item in self.kept().items():
            if number > expected:
                yield number - expected, None
            yield number, item
            expected = number + 1
        if self.count > expected:
            yield self.count - expected, None


class TaskLogSample:
    """The first and last lines of the log of each attempt, by task run and attempt."""

    def __init__(self) -> None:
        self._lines: dict[tuple[str, int], Sample[str]] = {}

    def add(self, run_id: str, attempt: int, text: str) -> None:
        found = self._lines.get((run_id, attempt))
        if found is None:
            if len(self._lines) >= LOGS:
                return
            found = self._lines[run_id, attempt] = Sample(*LOG_LINES)
        found.add(text[:LOG_WIDTH] + ("…" if len(text) > LOG_WIDTH else ""))

    def of(self, run_id: str, attempt: int) -> Sample[str] | None:
        return self._lines.get((run_id, attempt))


class Call:
    """One attempt of a task. ``done`` is its event, once it has ended."""

    def __init__(self, event: Event) -> None:
        self.run_id = event.task_run_id or ""
        self.label = event.task_label or ""
        self.step = event.step or ""
        self.iteration = "/".join(map(str, path_of(event.iteration_id)))
        self.attempt = event.attempt or 1
        self.started = seconds_of(event.timestamp)
        self.ended: float | None = None
        self.waits: list[tuple[float, float | None]] = []
        self.wait: Event | None = None
        self.child: str | None = None
        self.done: Event | None = None

    @property
    def is_error(self) -> bool:
        return self.done is not None and self.done.status == "error"

    @property
    def is_waiting(self) -> bool:
        return self.done is None and bool(self.waits) and self.waits[-1][1] is None

    @property
    def waits_for(self) -> str:
        """Awaited event: ``signal approved``, ``playbook shop/pay``, or a moment."""
        payload = self.wait.payload if self.wait is not None else {}
        match payload.get("on"):
            case "signal":
                return f"signal {payload.get('signal')}"
            case "event":
                return "an event"
            case "playbook":
                return f"playbook {payload['child'].get('path')}"
            case _:
                return f"until {payload.get('until')}"


class Trail:
    """Calls of one pipeline: of a run, or of one iteration."""

    def __init__(self, name: str | None, started: float, item: JSON = None) -> None:
        self.path = path_of(name)
        self.item = item
        self.started = started
        self.calls: Sample[Call] = Sample(*CALLS)
        self.attempts = 0
        self.end: Event | None = None
        self.is_cancelled = False
        self.open: Call | None = None

    @property
    def has_failed(self) -> bool:
        if self.end is None or self.is_cancelled:
            return False
        return self.end.name == "loop.iteration.failed"

    def take(self, event: Event) -> None:
        now = seconds_of(event.timestamp)
        call = self.open
        if event.name == "task.started":
            self.open = Call(event)
            self.calls.add(self.open)
            self.attempts = max(self.attempts, event.attempt or 1)
        elif call is None:
            return
        elif event.name == "task.suspended":
            call.waits.append((now, None))
            call.wait = event
            if isinstance(child := event.payload.get("child"), dict):
                call.child = child.get("execution_id")
        elif event.name == "task.resumed" and call.waits:
            call.waits[-1] = (call.waits[-1][0], now)
        elif event.name == "task.done":
            call.ended, call.done = now, event
            if not call.waits:
                times = measured_times(event) or (call.started, now)
                call.started, call.ended = times


def measured_times(done: Event) -> tuple[float, float] | None:
    """Return the worker's begin and end of a call; events of one commit share a
    timestamp. None if the event does not have them."""
    try:
        meta = done.payload["outcome"]["meta"]
        return seconds_of(meta["started_at"]), seconds_of(meta["ts"])
    except (KeyError, TypeError, ValueError):
        return None


class Iterations:
    """Spans of all iterations of the outermost loop, 17 bytes each."""

    def __init__(self, total: int, kept: int = 0) -> None:
        self.total = total
        self.done, self.failed, self.cancelled = kept, 0, 0
        self.starts = array("d")
        self.ends = array("d")
        self.bad = array("b")
        self._places: dict[str, int] = {}

    def start(self, name: str, now: float) -> None:
        self._places[name] = len(self.starts)
        self.starts.append(now)
        self.ends.append(nan)
        self.bad.append(0)

    def end(self, name: str, now: float, how: str) -> None:
        """Count the end of an iteration: done, failed or cancelled."""
        place = self._places.pop(name, None)
        if place is None:
            return
        self.ends[place] = now
        self.bad[place] = how == "failed"
        self.failed += how == "failed"
        self.cancelled += how == "cancelled"
        self.done += how == "done"


class StepRun:
    """Run of a step; ``end`` is step.done or step.failed, None while it runs.

    ``began`` is the event by which its token was admitted, or denied. A run that
    ``is_kept`` had finished when the execution was forked.
    """

    def __init__(self, began: Event, number: int) -> None:
        self.step = began.step or ""
        self.number = number
        self.began = began
        self.started = seconds_of(began.timestamp)
        self.end: Event | None = None
        self.is_cancelled = self.is_kept = False
        self.trail = Trail(None, self.started)
        self.loop: Iterations | None = None
        self.routings: Sample[Event] = Sample(*ROUTINGS)
        self.iterations: list[Trail] = []
        self.errors: tuple[JSON, JSON] | None = None
        self.failures: list[Trail] = []
        self._open: dict[str, Trail] = {}

    @property
    def is_skipped(self) -> bool:
        return self.began.name == "step.skipped"

    @property
    def status(self) -> str:
        if self.is_skipped:
            return "skipped"
        if self.end is not None:
            failed = "cancelled" if self.is_cancelled else "failed"
            return "done" if self.end.name == "step.done" else failed
        return "waiting" if next(self.waiting(), None) is not None else "running"

    def waiting(self) -> Iterator[Call]:
        """Yield the waiting calls of the run and of its iterations."""
        for trail in (self.trail, *self._open.values()):
            call = trail.open
            if call is not None and call.is_waiting:
                yield call

    @property
    def ended(self) -> float | None:
        if self.is_skipped:
            return self.started
        return None if self.end is None else seconds_of(self.end.timestamp)

    @property
    def queued_until(self) -> float | None:
        """When the first task began; None for a loop, or while none has begun."""
        first = self.trail.calls.kept().get(0)
        return None if first is None else max(self.started, first.started)

    @property
    def attempts(self) -> int:
        trails = (self.trail, *self.iterations, *self.failures)
        return max(trail.attempts for trail in trails)

    def take(self, event: Event) -> None:
        """Process an event of this run, other than its end."""
        name, iteration = event.name, event.iteration_id
        if name == "loop.started" and iteration is None:
            kept = event.payload.get("kept", {}).get("done", 0)
            self.loop = Iterations(event.payload["total"], kept)
        elif name == "loop.done" and iteration is None and "errors" in event.payload:
            self.errors = event.payload["error_kinds"], event.payload["errors"]
        elif name == "next.evaluated":
            self.routings.add(event)
        elif name.startswith("loop.iteration.") and iteration is not None:
            self._iterate(event, iteration)
        elif name.startswith("task."):
            trail = self.trail if iteration is None else self._open.get(iteration)
            if trail is not None:
                trail.take(event)

    def _iterate(self, event: Event, name: str) -> None:
        now = seconds_of(event.timestamp)
        is_outer = self.loop is not None and name.count("/") == 1
        if event.name == "loop.iteration.started":
            self._open[name] = Trail(name, now, event.payload.get("item"))
            if is_outer and self.loop is not None:
                self.loop.start(name, now)
            return
        failed = event.name == "loop.iteration.failed"
        how = "failed" if failed else "done"
        if failed and self.is_cancelled:
            how = "cancelled"
        if is_outer and self.loop is not None:
            self.loop.end(name, now, how)
        trail = self._open.pop(name, None)
        if trail is None:
            return
        trail.end, trail.is_cancelled = event, how == "cancelled"
        if len(self.iterations) < TRAILS:
            self.iterations.append(trail)
        elif how == "failed" and len(self.failures) < FAILED_TRAILS:
            self.failures.append(trail)
