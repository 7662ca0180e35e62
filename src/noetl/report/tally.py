"""Counters of steps: sums of the log, and what each event changes in them.

``count_event`` is the only definition of both: the web UI adds the changes that it
gets, and shows what a report shows after the same events.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import msgspec

from noetl.engine.undone import Undone
from noetl.types import JSON

VERSION = 2
"""Of the fold: stored tallies of another version are made again."""

COUNTERS = (
    *("ready", "running", "waiting", "done", "failed", "skipped", "retries"),
    *("ignored", "tokens", "loop_total", "loop_done", "loop_failed", "loop_running"),
    "cancelled",
)
"""Counters of a step. The first six count its runs, by what they are doing; `failed`
includes those that a cancellation ended, which `cancelled` counts alone."""

MARKS = (
    *("error", "ctx", "refused", "signal", "fork", "cancel"),
    *("pause", "resume", "queue", "admit", "end"),
)
"""Changes that change no counter: moments to show."""

EFFECTS: Mapping[str, Mapping[str, int]] = {
    "token+": {"tokens": 1},
    "token-": {"tokens": -1},
    "ready": {"ready": 1},
    "begin": {"ready": -1, "running": 1},
    "wait": {"running": -1, "waiting": 1},
    "wake": {"waiting": -1, "running": 1},
    "again": {"running": -1, "ready": 1},
    "done": {"running": -1, "done": 1},
    "fail": {"running": -1, "failed": 1},
    "stop": {"running": -1, "failed": 1, "cancelled": 1},
    "skip": {"skipped": 1},
    "retry": {"retries": 1},
    "ignored": {"ignored": 1},
    "loop_total": {"loop_total": 1},
    "loop_kept": {"loop_done": 1},
    "loop_begin": {"loop_running": 1},
    "loop_done": {"loop_running": -1, "loop_done": 1},
    "loop_fail": {"loop_running": -1, "loop_failed": 1},
    "loop_stop": {"loop_running": -1},
    **{name: {} for name in MARKS},
}
"""What one change of each name adds to the counters of its step. ``again`` starts an
open run once more, at a fork."""

OPS = {name: number for number, name in enumerate(EFFECTS)}
_INDEX = {name: number for number, name in enumerate(COUNTERS)}
_DELTAS = {
    name: tuple((_INDEX[counter], delta) for counter, delta in effect.items())
    for name, effect in EFFECTS.items()
}
READY, RUNNING, WAITING = 0, 1, 2


class Change(NamedTuple):
    """A change of the counters of a step, ``n`` times; without a step, a mark.

    ``who`` is a task, a signal or an account, ``run`` the number of the step run.
    """

    op: str
    step: str | None = None
    n: int = 1
    who: str | None = None
    run: int = -1


class OpenRun(msgspec.Struct, array_like=True):
    """A step run that has not ended.

    Of a loop, ``depth`` is the number of indices of its pipelines, ``pipelines`` and
    ``iterations`` count what is in flight; ``suspended`` are pipelines that wait.
    """

    step: str
    number: int
    phase: int = READY
    depth: int = 0
    pipelines: int = 1
    iterations: int = 0
    suspended: int = 0
    attempt: int = 1

    @property
    def wanted_phase(self) -> int:
        """The phase that follows from the pipelines, once the run has begun."""
        return WAITING if self.suspended >= self.pipelines > 0 else RUNNING


class OpenWait(msgspec.Struct, array_like=True):
    """A pipeline that waits: ``detail`` is the child execution."""

    run: str
    step: str
    task: str
    on: str
    since: str
    until: str | None = None
    name: str | None = None
    detail: str | None = None


class Failure(msgspec.Struct):
    """A failure that no arc has handled, at the event ``seq``."""

    seq: int
    step: str | None
    task: str | None
    run: str | None
    attempt: int | None
    kind: str
    message: str


class Tally(msgspec.Struct):
    """Sums of a log up to ``seq``, and what is needed to continue them.

    ``tokens`` has the step of each token. ``queued`` is the wait for a slot of a
    concurrency key. Its size does not grow with the log.
    """

    seq: int = 0
    first: str = ""
    last: str = ""
    steps: dict[str, list[int]] = msgspec.field(default_factory=dict)
    tokens: dict[str, str] = msgspec.field(default_factory=dict)
    runs: dict[str, OpenRun] = msgspec.field(default_factory=dict)
    waits: dict[str, OpenWait] = msgspec.field(default_factory=dict)
    failures: dict[str, Failure] = msgspec.field(default_factory=dict)
    playbook: dict[str, JSON] = msgspec.field(default_factory=dict)
    parent: dict[str, JSON] | None = None
    origin: dict[str, JSON] | None = None
    undone: Undone | None = None
    children: int = 0
    cancelled: bool = False
    ended: bool = False
    queued: str | None = None
    key: str | None = None
    paused_at: str | None = None

    def counters(self, step: str) -> list[int]:
        found = self.steps.get(step)
        if found is None:
            found = self.steps[step] = [0] * len(COUNTERS)
        return found

    def apply(self, change: Change) -> None:
        deltas = _DELTAS[change.op]
        if change.step is not None and deltas:
            counters = self.counters(change.step)
            for index, delta in deltas:
                counters[index] += delta * change.n


def look_of(counters: list[int], *, has_ended: bool = False) -> str:
    """Return the state of a step: what its runs are doing, or how they ended."""
    it = dict(zip(COUNTERS, counters, strict=True))
    for name in ("running", "waiting", "ready"):
        if it[name]:
            return name
    if it["failed"] > it["cancelled"]:
        return "failed"
    if it["cancelled"]:
        return "cancelled"
    if it["done"]:
        return "partial" if it["ignored"] or it["loop_failed"] else "done"
    if it["skipped"]:
        return "skipped"
    if it["tokens"]:
        return "ready"
    return "not_reached" if has_ended else "idle"
