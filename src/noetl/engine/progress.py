"""Where a pipeline stands, folded from its recorded tasks: the same on every side.

The worker moves it forward live, the server folds it from ``task.done`` events, and a
new owner of the run starts from it. There is no other record of a pipeline.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from noetl.engine.context import apply_patch
from noetl.types import JSON


class Waiting(msgspec.Struct):
    """Why a pipeline is suspended, and what ends it.

    ``since`` is when it began, ``until`` when it goes on by itself. ``schema`` is what
    a signal's data must fit, ``roles`` are those of which a sender must have one.
    ``answer`` is what came: the signal's data under ``data``, the child's end, or the
    event that a guard accepted. ``timers`` are those that are still to come, the next
    one first.
    """

    on: Literal["delay", "timer", "signal", "playbook", "event"]
    until: str | None = None
    signal: str | None = None
    child: dict[str, JSON] | None = None
    answer: dict[str, JSON] | None = None
    timers: list[dict[str, JSON]] = msgspec.field(default_factory=list)
    since: str | None = None
    schema: JSON = None
    roles: list[str] | None = None


class Progress(msgspec.Struct):
    """``label`` is the task to run next, None once the pipeline has ended.

    ``delay`` is what a retry has still to wait; ``in_doubt`` counts owners that were
    lost after ``task.started`` of this attempt. ``outcomes`` are those that templates
    name by their labels, null until there is one.
    """

    label: str | None
    attempt: int = 1
    visits: dict[str, int] = msgspec.field(default_factory=dict)
    started: bool = False
    in_doubt: int = 0
    delay: float = 0.0
    prev: JSON = None
    result: JSON = None
    iter: dict[str, JSON] | None = None
    tasks: int = 0
    end: Literal["done", "failed"] | None = None
    error: dict[str, JSON] | None = None
    waiting: Waiting | None = None
    outcomes: dict[str, JSON] = msgspec.field(default_factory=dict)

    def copy(self) -> Progress:
        """One that moves by itself; values are never changed in place, so shared."""
        return msgspec.structs.replace(self, visits=dict(self.visits))


def begin(
    first: str, iteration: dict[str, JSON] | None, keep: Sequence[str] = ()
) -> Progress:
    """A pipeline before its first task."""
    outcomes = dict.fromkeys(keep)
    return Progress(first, visits={first: 1}, iter=iteration, outcomes=outcomes)


def note_started(progress: Progress) -> None:
    if progress.started:
        progress.in_doubt += 1
    progress.started = True
    progress.delay = 0.0
    progress.waiting = None


def note_done(progress: Progress, payload: Mapping[str, JSON]) -> None:
    """Apply one ``task.done``: patches, ``_prev``, the program counter."""
    directive, result = payload["directive"], payload["outcome"]["result"]
    do = directive["do"]
    if payload.get("set_iter") and progress.iter is not None:
        progress.iter = apply_patch(progress.iter, payload["set_iter"])
    if do not in ("retry", "skip"):
        progress.prev = result
    if do != "skip":
        progress.result = result
    if progress.label in progress.outcomes:
        label = progress.label or ""
        kept = {**payload["outcome"], "visits": progress.visits[label]}
        progress.outcomes = {**progress.outcomes, label: kept}
    progress.tasks += 1
    progress.started, progress.in_doubt = False, 0
    progress.waiting = None
    if do == "retry":
        progress.attempt += 1
        progress.delay = directive["delay"]
        return
    label = directive.get("next")
    progress.label, progress.attempt = label, 1  # S-14: a visit counts from one
    if label is not None:
        progress.visits[label] = progress.visits.get(label, 0) + 1
    else:
        progress.end = "failed" if do == "fail" else "done"
        progress.error = payload.get("error")


def note_forked(progress: Progress, first: str | None) -> None:
    """What was begun and has no end begins again; nobody is in doubt about it.

    What was waited for and has come stays: the answer is history. ``first`` is where
    a pipeline begins in a newer playbook, if nothing was done in it yet.
    """
    if progress.waiting is not None and progress.waiting.answer is not None:
        return
    progress.started, progress.in_doubt = False, 0
    progress.delay, progress.waiting = 0.0, None
    if first is not None and not progress.tasks:
        progress.label, progress.visits = first, {first: 1}


def note_suspended(progress: Progress, payload: Mapping[str, JSON], since: str) -> None:
    progress.delay = 0.0
    progress.waiting = Waiting(
        payload["on"],
        payload["until"],
        payload.get("signal"),
        payload.get("child"),
        timers=payload.get("timers", []),
        since=since,
        schema=payload.get("schema"),
        roles=payload.get("roles"),
    )
