"""What is known of a step while it runs: counts of what is over, and what is open."""

from __future__ import annotations

from collections import deque
from typing import Literal

import msgspec

On = Literal["work", "retry", "timer", "signal", "event", "playbook"]
State = Literal["running", "waiting", "done", "failed", "skipped"]

_SPACING = 0.5  # seconds between two samples
_SAMPLES = 20


class Activity(msgspec.Struct):
    """What one pipeline does now: a task at work, or what it waits for.

    ``attempts`` is the bound of a retry, ``error`` why it is one; ``until`` is in
    seconds since the epoch; ``about`` is the signal's name or the child playbook.
    """

    label: str
    attempt: int
    on: On = "work"
    attempts: int | None = None
    error: str = ""
    until: float | None = None
    about: str = ""


class Pace:
    """How fast a count grows, over the last seconds: a few samples, never all."""

    def __init__(self) -> None:
        self._samples: deque[tuple[float, int]] = deque(maxlen=_SAMPLES)

    def note(self, now: float, count: int) -> None:
        if not self._samples or now - self._samples[-1][0] >= _SPACING:
            self._samples.append((now, count))

    def rate(self, now: float, count: int) -> float | None:
        """Per second; None while it is too early to say."""
        if not self._samples or now - self._samples[0][0] < _SPACING:
            return None
        first, before = self._samples[0]
        return (count - before) / (now - first)


class Level(msgspec.Struct):
    """The loops of a step at one depth of nesting, those of all its runs together."""

    total: int = 0
    done: int = 0
    failed: int = 0
    pace: Pace = msgspec.field(default_factory=Pace)

    @property
    def over(self) -> int:
        return self.done + self.failed


class Row(msgspec.Struct):
    """One step by its name, however often it runs.

    ``open`` are runs and since when; ``working`` and ``holding`` are pipelines by
    their id. Nothing here grows with what is over.
    """

    step: str
    open: dict[str, float] = msgspec.field(default_factory=dict)
    working: dict[str, Activity] = msgspec.field(default_factory=dict)
    holding: dict[str, Activity] = msgspec.field(default_factory=dict)
    levels: list[Level] = msgspec.field(default_factory=list)
    done: int = 0
    failed: int = 0
    skipped: int = 0
    retries: int = 0
    seconds: float = 0.0
    last: State = "skipped"
    error: str = ""

    @property
    def state(self) -> State:
        if not self.open:
            return self.last
        return "waiting" if self.holding and not self.working else "running"

    @property
    def ended(self) -> int:
        return self.done + self.failed

    def level(self, depth: int) -> Level:
        while len(self.levels) <= depth:
            self.levels.append(Level())
        return self.levels[depth]

    def work(self, pipeline: str, activity: Activity) -> None:
        self.holding.pop(pipeline, None)
        self.working[pipeline] = activity

    def hold(self, pipeline: str, activity: Activity) -> None:
        self.working.pop(pipeline, None)
        self.holding[pipeline] = activity

    def leave(self, pipeline: str) -> None:
        self.working.pop(pipeline, None)
        self.holding.pop(pipeline, None)
