"""What an execution passed over: ignored errors, arcs that did not fire, steps that no
token reached, names that nothing gave (S-73, S-74)."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from noetl.engine.events import Event, LoopDone, NextEvaluated, TaskDone
from noetl.engine.runs import path_of
from noetl.types import JSON

LISTED = 100
"""Members of each list; the counts are complete."""
TELLING = frozenset({"ignored", "unfired", "not_reached", "undefined"})
"""Members of payloads that tell what was passed over; other events have none."""


class IgnoredError(msgspec.Struct, frozen=True):
    """An error that no rule of its task matched, so that the pipeline went on
    (POL-06)."""

    step: str
    step_run_id: str
    iteration: list[int]
    task: str
    kind: str
    message: str


class Ignored(msgspec.Struct):
    """The ignored errors of one step run: their number, and the first of them."""

    count: int
    kind: str
    message: str

    def words(self) -> str:
        """Format ``1 error ignored: http.connection: no connection to …``."""
        return f"{ignored_words(self.count)}: {self.kind}: {self.message}"


def ignored_words(number: int) -> str:
    """Format ``1 error ignored``, ``2,000 errors ignored``."""
    return f"{number:,} error{'' if number == 1 else 's'} ignored"


def ignored_error(event: Event) -> IgnoredError | None:
    """Return the error that a ``task.done`` event records as ignored, or None."""
    done: TaskDone = event.payload
    if event.name != "task.done" or not done.get("ignored"):
        return None
    error = done["outcome"]["error"] or {}
    return IgnoredError(
        event.step or "",
        event.step_run_id or "",
        list(path_of(event.iteration_id)),
        event.task_label or "",
        str(error.get("kind", "")),
        str(error.get("message", "")),
    )


def add_ignored(before: Ignored | None, error: IgnoredError) -> Ignored:
    """Count one more ignored error of a step run."""
    if before is None:
        return Ignored(1, error.kind, error.message)
    return msgspec.structs.replace(before, count=before.count + 1)


class UndefinedName(msgspec.Struct, frozen=True):
    """A name that a guard, an admission rule or a rule of a task read, and that
    nothing gave; ``nearest`` exists in its place. ``task`` is empty for arcs and
    admission."""

    step: str
    step_run_id: str
    task: str
    reader: str
    name: str
    nearest: str | None = None

    def words(self) -> str:
        """Format ``a guard read ctx.totl, which nothing gave (nearest: total)``."""
        return f"{self.reader} read {_names_words({self.name: self.nearest})}"


_READERS = {
    "next.evaluated": "a guard",
    "step.skipped": "an admission rule",
    "task.done": "a rule",
}


def undefined_names(event: Event) -> list[UndefinedName]:
    """Return the names that an event records as undefined."""
    nearest = event.payload.get("nearest") or {}
    place = event.step or "", event.step_run_id or "", event.task_label or ""
    return [
        UndefinedName(*place, _READERS[event.name], name, nearest.get(name))
        for name in event.payload.get("undefined") or ()
        if event.name in _READERS
    ]


def _names_words(names: Mapping[str, str | None]) -> str:
    """Format ``ctx.totl, which nothing gave (nearest: total)``."""
    near = ", ".join(name for name in names.values() if name is not None)
    more = f" (nearest: {near})" if near else ""
    return f"{' and '.join(names)}, which nothing gave{more}"


FALSE = "its guard is false"
"""Why most arcs do not fire."""


class NoArcFired(msgspec.Struct, frozen=True):
    """The end of a step run after which no arc fired, with the answer of each arc that
    does not ask for another end (S-74). ``undefined`` are names that the guards read
    and nothing gave (S-73)."""

    step: str
    step_run_id: str
    on: str
    arcs: list[dict[str, JSON]]
    undefined: list[str] = []
    nearest: dict[str, str] = {}

    def words(self) -> str:
        """Format ``no arc fired (second: its guard is false)``, or the names that the
        guards read and nothing gave."""
        answers = [f"{arc['step']}: {arc.get('why', '')}" for arc in self.arcs]
        told = f"no arc fired ({'; '.join(answers)})"
        if not self.undefined:
            return told
        if all(arc.get("why") == FALSE for arc in self.arcs):
            told = "no arc fired"
        reader = "its guards" if len(self.arcs) > 1 else "its guard"
        names = {name: self.nearest.get(name) for name in self.undefined}
        return f"{told}; {reader} read {_names_words(names)}"


def no_arc_fired(event: Event) -> NoArcFired | None:
    """Return what a ``next.evaluated`` event records as unfired, or None."""
    if event.name != "next.evaluated" or not event.payload.get("unfired"):
        return None
    routed: NextEvaluated = event.payload
    arcs = [answer for answer in routed["arcs"] if answer["step"] in routed["unfired"]]
    answers = [{"step": arc["step"], "why": arc.get("why", "")} for arc in arcs]
    run_id = event.step_run_id or ""
    undefined, nearest = routed.get("undefined", []), routed.get("nearest", {})
    step, on = event.step or "", routed["on"]
    return NoArcFired(step, run_id, on, answers, undefined, nearest)


def not_reached_words(number: int) -> str:
    """Format ``1 step not reached``, ``2 steps not reached``."""
    return f"{number:,} step{'' if number == 1 else 's'} not reached"


FIRST_ERRORS = 3


def failed_words(failed: int, total: int, kinds: JSON, errors: JSON) -> str:
    """Format ``2 of 9 iterations failed: 2 x timeout: [3] too slow, [7] too slow``."""
    words = f"{failed:,} of {total:,} iterations failed"
    if not kinds:
        return words
    counted = ", ".join(f"{number:,} \u00d7 {kind}" for kind, number in kinds.items())
    first = [f"[{each['index']}] {each['message']}" for each in errors[:FIRST_ERRORS]]
    more = ", …" if failed > len(first) else ""
    return f"{words}: {counted}: {', '.join(first)}{more}"


def iteration_words(error: dict[str, JSON]) -> str:
    """Format the position of the iteration that failed, ``[13] ``; empty outside of
    loops."""
    index = error.get("iteration")
    return "" if index is None else f"[{index}] "


def partial_failure(event: Event) -> str | None:
    """Describe the failed iterations of an outermost loop that is done, or None."""
    if event.name != "loop.done" or event.iteration_id or not event.payload["failed"]:
        return None
    done: LoopDone = event.payload
    kinds, errors = done.get("error_kinds"), done.get("errors")
    return failed_words(done["failed"], done["total"], kinds, errors)


class Endings:
    """Fold of a log: lists of at most ``LISTED`` members, and their complete counts."""

    def __init__(self) -> None:
        self.ignored: list[IgnoredError] = []
        self.ignored_count = 0
        self.unfired: list[NoArcFired] = []
        self.unfired_count = 0
        self.not_reached: list[str] = []
        self.not_reached_count = 0
        self.undefined: dict[tuple[str, str, str], UndefinedName] = {}

    def take(self, event: Event) -> None:
        if "undefined" in event.payload:
            self._take_undefined(event)
        if (error := ignored_error(event)) is not None:
            self.ignored_count += 1
            if len(self.ignored) < LISTED:
                self.ignored.append(error)
        elif (lost := no_arc_fired(event)) is not None:
            self.unfired_count += 1
            if len(self.unfired) < LISTED:
                self.unfired.append(lost)
        elif event.name == "workflow.finished" and "not_reached" in event.payload:
            self.not_reached = event.payload["not_reached"]["steps"]
            self.not_reached_count = event.payload["not_reached"]["count"]

    def _take_undefined(self, event: Event) -> None:
        """Keep the first event of each place and name."""
        for each in undefined_names(event):
            if len(self.undefined) < LISTED:
                self.undefined.setdefault((each.step, each.task, each.name), each)

    def as_json(self) -> dict[str, JSON]:
        return {
            "ignored_errors": msgspec.to_builtins(self.ignored),
            "no_arc_fired": msgspec.to_builtins(self.unfired),
            "not_reached": self.not_reached,
            "undefined_names": msgspec.to_builtins([*self.undefined.values()]),
            "counts": {
                "ignored_errors": self.ignored_count,
                "no_arc_fired": self.unfired_count,
                "not_reached": self.not_reached_count,
                "undefined_names": len(self.undefined),
            },
        }
