"""Undone events: those of an origin that a retry does not count.

A retry copies the log of its origin. The runs that begin again, and everything that
followed from them through tokens, stay in the copy without effect, so that positions
and ranges of the log hold for both.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Sequence

import msgspec

from noetl.engine.events import Event
from noetl.types import JSON

Ranges = list[tuple[int, int]]
"""First and last number of each range, in order."""


def ranges_of(numbers: Iterable[int]) -> Ranges:
    """Return the numbers as ranges."""
    found: Ranges = []
    for number in sorted(set(numbers)):
        if found and found[-1][1] == number - 1:
            found[-1] = (found[-1][0], number)
        else:
            found.append((number, number))
    return found


def is_within(ranges: Sequence[tuple[int, int]], number: int) -> bool:
    place = bisect_right(ranges, (number, float("inf")))
    return place > 0 and number <= ranges[place - 1][1]


def numbers_in(ranges: Ranges) -> Iterable[int]:
    return (number for first, last in ranges for number in range(first, last + 1))


def number_of(step_run_id: str) -> int:
    """Return the number of a step run in its execution."""
    return int(step_run_id.rpartition("-")[2])


class Undone(msgspec.Struct, frozen=True):
    """Events up to ``last`` that do not count: those of ``runs``, by their numbers, and
    single ``events``. ``keep`` are those of the runs whose finished iterations are kept
    for the run that repeats them.
    """

    last: int = 0
    runs: Ranges = msgspec.field(default_factory=list)
    events: Ranges = msgspec.field(default_factory=list)
    keep: list[int] = msgspec.field(default_factory=list)

    @classmethod
    def of(cls, first: Event) -> Undone | None:
        """Return the undone events that the first event of a log names."""
        fork = first.payload.get("fork") or {}
        found = fork.get("undone")
        return msgspec.convert(found, cls) if found is not None else None

    def covers(self, event: Event) -> bool:
        if event.seq > self.last:
            return False
        if event.step_run_id is not None and is_within(
            self.runs, number_of(event.step_run_id)
        ):
            return True
        return is_within(self.events, event.seq)

    def has_run(self, step_run_id: str) -> bool:
        return is_within(self.runs, number_of(step_run_id))

    def as_json(self) -> JSON:
        return msgspec.to_builtins(self)


class Unwinding:
    """Finds the events that followed from ``targets``: ``take`` all events in order.

    ``targets`` are runs, or the tokens of denials. A run follows from another if it
    took a token that the other sent, or if it left a join before the other could send
    one: ``is_missing(step, sources, live)`` tells whether a join of the step, where
    tokens of these sources have come, would wait for one of the ``live`` steps.
    """

    def __init__(
        self,
        targets: Collection[str],
        earlier: Undone | None,
        is_missing: Callable[[str, set[str], set[str]], bool],
    ) -> None:
        self._targets = targets
        self._earlier = earlier
        self._is_missing = is_missing
        self._runs: set[int] = set()
        self._events: set[int] = set()
        self._tokens: set[str] = set()
        self._sources: dict[str, str] = {}
        self._steps: set[str] = set()
        self._joins: set[str] = set()

    def take(self, event: Event) -> None:
        if self._earlier is not None and self._earlier.covers(event):
            return
        payload, name = event.payload, event.name
        if name in ("step.scheduled", "step.skipped"):
            if self._follows(event):
                self._undo(event)
        elif name == "token.joined":
            token = payload["token_id"]
            self._sources[token] = payload["from"]
            discarded = payload.get("discarded") and event.step in self._joins
            if token in self._tokens or discarded:
                self._events.add(event.seq)
        elif name == "workflow.forked":
            for token in payload.get("again", ()):
                if token["failed"] in self._targets:
                    self._tokens.add(token["token_id"])
        elif self._runs and self.covers(event):
            if name == "next.evaluated":
                self._tokens.update(sent["token_id"] for sent in payload["fired"])
            elif name == "task.resumed" and "message" in payload:
                self._events.add(payload["message"])

    def covers(self, event: Event) -> bool:
        """Return whether the run of the event follows from the targets."""
        run = event.step_run_id
        return run is not None and number_of(run) in self._runs

    def _follows(self, event: Event) -> bool:
        tokens = event.payload["tokens"]
        if event.entity_id in self._targets or not self._tokens.isdisjoint(tokens):
            return True
        sources = {self._sources[token] for token in tokens if token in self._sources}
        if not sources:
            return False
        step = event.step or ""
        return step in self._joins or self._is_missing(step, sources, self._steps)

    def _undo(self, event: Event) -> None:
        step = event.step or ""
        self._steps.add(step)
        if any(token in self._sources for token in event.payload["tokens"]):
            self._joins.add(step)  # its later rounds took what was left
        if event.step_run_id is not None:
            self._runs.add(number_of(event.step_run_id))
        else:
            self._events.add(event.seq)

    def end(self, last: int, keep: Iterable[int]) -> Undone:
        """Return all undone events of a log that is kept up to ``last``."""
        before = self._earlier or Undone()
        runs = self._runs.union(numbers_in(before.runs))
        events = self._events.union(numbers_in(before.events))
        return Undone(last, ranges_of(runs), ranges_of(events), sorted(set(keep)))
