"""Lines of step runs, one page of a log at a time: when, how long, how they ended."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from noetl.dsl.node import shorten
from noetl.engine.events import Event, LoopStarted, StepFailed, StepSkipped, TaskDone
from noetl.engine.execution_document import elapsed_ms
from noetl.engine.undone import Undone, number_of
from noetl.types import JSON

MESSAGE_CHARS = 200


class RunLine(msgspec.Struct, array_like=True):
    """One step run, or one denied token (``number`` -1).

    ``wait`` is the time until its first task began, in milliseconds. Of a loop,
    ``total`` is not negative.
    """

    run: str
    number: int
    step: str
    status: str
    seq: int
    at: str
    to_seq: int | None = None
    ended_at: str | None = None
    wait: float | None = None
    attempts: int = 0
    ignored: int = 0
    total: int = -1
    done: int = 0
    failed: int = 0
    kind: str | None = None
    message: str | None = None
    tasks: int = 0

    def as_json(self) -> dict[str, JSON]:
        error = None
        if self.kind is not None:
            error = {"kind": self.kind, "message": self.message}
        loop = {"total": self.total, "done": self.done, "failed": self.failed}
        return {
            "run": self.run,
            "number": self.number,
            "step": self.step,
            "status": self.status,
            "from_seq": self.seq,
            "to_seq": self.to_seq,
            "at": self.at,
            "ms": elapsed_ms(self.at, self.ended_at or ""),
            "queue_ms": self.wait,
            "attempts": self.attempts,
            "ignored": self.ignored,
            "error": error,
            "loop": loop if self.total >= 0 else None,
        }


class RunPage(msgspec.Struct):
    """Runs that a page of the log begins, in order, and the ends of earlier ones.

    ``open`` are all runs that have not ended at its end, by their ids; a run that the
    page begins is among them, too, until it ends. ``last`` is the highest number of a
    run so far.
    """

    last: int = 0
    begun: list[RunLine] = msgspec.field(default_factory=list)
    closed: list[RunLine] = msgspec.field(default_factory=list)
    open: dict[str, RunLine] = msgspec.field(default_factory=dict)
    cancelled: bool = False

    def turn(self) -> RunPage:
        """Return the empty page that follows this one."""
        return RunPage(self.last, open=dict(self.open), cancelled=self.cancelled)

    def take(self, event: Event, undone: Undone | None) -> None:
        """Fold an event that counts."""
        fold = _FOLDS.get(event.name)
        if fold is not None and not (undone is not None and undone.covers(event)):
            fold(self, event, event.payload)

    def known(self, run: str) -> RunLine | None:
        """Return the line of a run that the page begins, ends or leaves open."""
        if run in self.open:
            return self.open[run]
        return next((e for e in (*self.begun, *self.closed) if e.run == run), None)


def _scheduled(page: RunPage, event: Event, payload: JSON) -> None:
    run = event.step_run_id or ""
    number, step = number_of(run), event.step or ""
    line = RunLine(run, number, step, "ready", event.seq, event.timestamp)
    page.begun.append(line)
    page.open[run] = line
    page.last = max(page.last, number)


def _skipped(page: RunPage, event: Event, payload: StepSkipped) -> None:
    line = RunLine(
        *(event.entity_id, -1, event.step or "", "skipped", event.seq, event.timestamp),
        *(event.seq, event.timestamp),
    )
    error = payload["admit"].get("error")
    if error is not None:
        _note_error(line, error)
    page.begun.append(line)


def _ended(page: RunPage, event: Event, payload: StepFailed) -> None:
    line = page.open.pop(event.step_run_id or "", None)
    if line is None:
        return
    line.to_seq, line.ended_at = event.seq, event.timestamp
    if event.name == "step.failed":
        line.status = "cancelled" if page.cancelled else "failed"
        _note_error(line, payload["error"])
    else:
        line.status = "partial" if line.ignored or line.failed else "done"
    if not page.begun or line.seq < page.begun[0].seq:
        page.closed.append(line)


def _note_error(line: RunLine, error: Mapping[str, JSON]) -> None:
    line.kind = str(error.get("kind", ""))
    line.message = shorten(str(error.get("message", "")), MESSAGE_CHARS)


def _began(page: RunPage, event: Event, payload: JSON) -> None:
    line = page.open.get(event.step_run_id or "")
    if line is None:
        return
    line.status = "running"
    line.attempts = max(line.attempts, event.attempt or 0)
    if not line.tasks:
        _note_wait(line, event.timestamp)


def _task_done(page: RunPage, event: Event, payload: TaskDone) -> None:
    line = page.open.get(event.step_run_id or "")
    if line is None:
        return
    line.status = "running"
    if not line.tasks:
        meta = payload["outcome"].get("meta") or {}
        _note_wait(line, str(meta.get("started_at", event.timestamp)))
    line.tasks += 1
    line.ignored += bool(payload.get("ignored"))


def _note_wait(line: RunLine, moment: str) -> None:
    waited = elapsed_ms(line.at, moment)
    if waited is not None:
        known = waited if line.wait is None else line.wait
        line.wait = max(0.0, min(known, waited))


def _suspended(page: RunPage, event: Event, payload: JSON) -> None:
    line = page.open.get(event.step_run_id or "")
    if line is not None and line.total < 0:
        line.status = "waiting"


def _loop_started(page: RunPage, event: Event, payload: LoopStarted) -> None:
    line = page.open.get(event.step_run_id or "")
    if line is not None and event.iteration_id is None:
        line.status, line.total = "running", payload["total"]
        line.done = payload["kept"]["done"] if "kept" in payload else 0


def _iteration_ended(page: RunPage, event: Event, payload: JSON) -> None:
    line = page.open.get(event.step_run_id or "")
    if line is None or (event.iteration_id or "").count("/") != 1:
        return
    if event.name == "loop.iteration.done":
        line.done += 1
    elif not page.cancelled:
        line.failed += 1


def _cancelled(page: RunPage, event: Event, payload: JSON) -> None:
    page.cancelled = True


def _forked(page: RunPage, event: Event, payload: JSON) -> None:
    """Start open runs again at the time of the fork."""
    for line in page.open.values():
        line.at, line.status = event.timestamp, "ready"
        line.wait, line.tasks = None, 0


_FOLDS: dict[str, Callable[[RunPage, Event, Any], None]] = {
    "step.scheduled": _scheduled,
    "step.skipped": _skipped,
    "step.done": _ended,
    "step.failed": _ended,
    "task.started": _began,
    "task.resumed": _began,
    "task.suspended": _suspended,
    "task.done": _task_done,
    "loop.started": _loop_started,
    "loop.iteration.done": _iteration_ended,
    "loop.iteration.failed": _iteration_ended,
    "workflow.cancelled": _cancelled,
    "workflow.forked": _forked,
}
