"""What an execution passed over: ignored errors, arcs that did not fire, steps that no
token reached (S-73, S-74)."""

from __future__ import annotations

import msgspec

from noetl.engine.events import Event, LoopDone, NextEvaluated, TaskDone
from noetl.engine.runs import path_of
from noetl.types import JSON

LISTED = 100
"""Members of each list; the counts are complete."""
TELLING = frozenset({"ignored", "unfired", "not_reached"})
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


class NoArcFired(msgspec.Struct, frozen=True):
    """The end of a step run after which no arc fired, with the answer of each arc that
    does not ask for another end (S-74)."""

    step: str
    step_run_id: str
    on: str
    arcs: list[dict[str, JSON]]

    def words(self) -> str:
        """Format ``no arc fired (second: its guard is false)``."""
        answers = [f"{arc['step']}: {arc.get('why', '')}" for arc in self.arcs]
        return f"no arc fired ({'; '.join(answers)})"


def no_arc_fired(event: Event) -> NoArcFired | None:
    """Return what a ``next.evaluated`` event records as unfired, or None."""
    if event.name != "next.evaluated" or not event.payload.get("unfired"):
        return None
    routed: NextEvaluated = event.payload
    arcs = [answer for answer in routed["arcs"] if answer["step"] in routed["unfired"]]
    answers = [{"step": arc["step"], "why": arc.get("why", "")} for arc in arcs]
    run_id = event.step_run_id or ""
    return NoArcFired(event.step or "", run_id, routed["on"], answers)


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

    def take(self, event: Event) -> None:
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

    def as_json(self) -> dict[str, JSON]:
        return {
            "ignored_errors": msgspec.to_builtins(self.ignored),
            "no_arc_fired": msgspec.to_builtins(self.unfired),
            "not_reached": self.not_reached,
            "counts": {
                "ignored_errors": self.ignored_count,
                "no_arc_fired": self.unfired_count,
                "not_reached": self.not_reached_count,
            },
        }
