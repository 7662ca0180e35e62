"""Fold of events into the rows of the live view. Pure: no clock, no terminal.

The cost per event is constant, and finished work is kept as counts only, so a loop of a
million iterations, or a step that runs ten thousand times, takes one row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime

from noetl.commands.output.live.rows import Activity, On, Row
from noetl.engine.endings import (
    add_ignored,
    ignored_error,
    no_arc_fired,
    partial_failure,
)
from noetl.engine.events import Event
from noetl.engine.undone import Undone
from noetl.types import JSON

_WAITS: dict[str, On] = {
    "delay": "retry",
    "limit": "limit",
    "timer": "timer",
    "signal": "signal",
    "event": "event",
    "playbook": "playbook",
}


class Board:
    """The rows of the view: one per step, in the order of their first run. ``queues``
    returns the words for a step that waits for a slot, or none."""

    def __init__(self) -> None:
        self.rows: dict[str, Row] = {}
        self.name = ""
        self.execution_id = ""
        self.status = "running"
        self.started: float | None = None
        self.ended: float | None = None
        self.error = ""
        self._undone: Undone | None = None
        self.queues: Callable[[Row], str] = lambda row: ""

    def take(self, events: Iterable[Event]) -> None:
        for event in events:
            if event.seq == 1:
                self._undone = Undone.of(event)
            if self._undone is not None and self._undone.covers(event):
                continue
            fold = _FOLDS.get(event.name)
            if fold is not None:
                fold(self, event)

    def row(self, event: Event) -> Row:
        step = event.step or ""
        row = self.rows.get(step)
        if row is None:
            row = self.rows[step] = Row(step)
        return row

    def tick(self, now: float) -> None:
        """Sample the counts of each row, from which rates are computed."""
        for row in self.rows.values():
            row.queued = self.queues(row)
            if row.open:
                for level in row.levels:
                    level.pace.note(now, level.over)


def seconds_of(timestamp: str) -> float:
    """Convert an event's timestamp to seconds since the epoch."""
    return datetime.fromisoformat(timestamp).timestamp()


def read_wait(event: Event) -> Activity:
    """Read from a ``task.suspended`` event what the pipeline is waiting for."""
    payload = event.payload
    child = payload.get("child") or {}
    about = payload.get("signal") or child.get("path") or ""
    if child.get("execution_id"):
        about = f"{about} ({child['execution_id']})"
    return Activity(
        event.task_label or "",
        event.attempt or 1,
        _WAITS.get(payload.get("on") or "", "timer"),
        until=seconds_of(payload["until"]) if payload.get("until") else None,
        about=about,
    )


def _message(error: JSON) -> str:
    return str((error or {}).get("message") or "")


def _pipeline(event: Event) -> str:
    return event.iteration_id or event.step_run_id or ""


# -- the execution ---------------------------------------------------------------


def _requested(board: Board, event: Event) -> None:
    about = event.payload["playbook"]
    board.name = about.get("path") or about.get("name") or ""
    board.execution_id = event.execution_id
    board.started = seconds_of(event.timestamp)


def _paused(board: Board, event: Event) -> None:
    board.status = "paused"


def _queued(board: Board, event: Event) -> None:
    board.status = "queued"


def _resumed(board: Board, event: Event) -> None:
    board.status = "running"


def _cancelled(board: Board, event: Event) -> None:
    board.status = "cancelling"


def _forked(board: Board, event: Event) -> None:
    """Clear the open work of the origin, which starts again in the fork."""
    for row in board.rows.values():
        row.working.clear()
        row.holding.clear()
        row.open = dict.fromkeys(row.open, seconds_of(event.timestamp))


def _finished(board: Board, event: Event) -> None:
    board.status = event.payload["status"]
    board.error = _message(event.payload.get("error"))
    board.ended = seconds_of(event.timestamp)
    for row in board.rows.values():
        for mine in (row.open, row.working, row.holding):
            mine.clear()


# -- steps -----------------------------------------------------------------------


def _scheduled(board: Board, event: Event) -> None:
    row = board.row(event)
    row.open[event.step_run_id or ""] = seconds_of(event.timestamp)


def _skipped(board: Board, event: Event) -> None:
    row = board.row(event)
    row.skipped += 1
    row.last = "skipped"


def _step_done(board: Board, event: Event) -> None:
    row = board.row(event)
    row.done += 1
    row.last = "done"
    _close(row, event)


def _step_failed(board: Board, event: Event) -> None:
    row = board.row(event)
    row.failed += 1
    row.last = "failed"
    row.error = _message(event.payload.get("error"))
    _close(row, event)


def _close(row: Row, event: Event) -> None:
    run = event.step_run_id or ""
    began = row.open.pop(run, None)
    if began is not None:
        row.seconds += max(0.0, seconds_of(event.timestamp) - began)
    row.leave(run)


def _evaluated(board: Board, event: Event) -> None:
    if (lost := no_arc_fired(event)) is not None:
        board.row(event).unfired = lost.words()


# -- tasks -----------------------------------------------------------------------


def _task_started(board: Board, event: Event) -> None:
    activity = Activity(event.task_label or "", event.attempt or 1)
    board.row(event).work(_pipeline(event), activity)


def _task_done(board: Board, event: Event) -> None:
    row, directive = board.row(event), event.payload["directive"]
    if (error := ignored_error(event)) is not None:
        row.ignored = add_ignored(row.ignored, error)
    if directive["do"] != "retry":
        row.leave(_pipeline(event))
        return
    row.retries += 1
    activity = Activity(
        event.task_label or "",
        event.attempt or 1,
        "retry",
        directive.get("attempts"),
        _message(event.payload["outcome"].get("error")),
        seconds_of(event.timestamp) + (directive.get("delay") or 0.0),
    )
    row.hold(_pipeline(event), activity)


def _task_suspended(board: Board, event: Event) -> None:
    row, pipeline = board.row(event), _pipeline(event)
    activity, known = read_wait(event), row.holding.get(pipeline)
    if activity.on == "retry" and known is not None:
        known.until = activity.until  # the retry before it has the reason
        return
    row.hold(pipeline, activity)


def _task_resumed(board: Board, event: Event) -> None:
    row, pipeline = board.row(event), _pipeline(event)
    held = row.holding.get(pipeline)
    if held is None or held.on != "retry":  # a retry begins with task.started
        _task_started(board, event)


# -- loops -----------------------------------------------------------------------


def _loop_started(board: Board, event: Event) -> None:
    depth = (event.iteration_id or "").count("/")
    level = board.row(event).level(depth)
    level.total += event.payload["total"]
    level.done += event.payload.get("kept", {}).get("done", 0)


def _loop_done(board: Board, event: Event) -> None:
    if (words := partial_failure(event)) is not None:
        board.row(event).partial = words


def _iteration_done(board: Board, event: Event) -> None:
    row, pipeline = board.row(event), event.iteration_id or ""
    row.level(pipeline.count("/") - 1).done += 1
    row.leave(pipeline)


def _iteration_failed(board: Board, event: Event) -> None:
    row, pipeline = board.row(event), event.iteration_id or ""
    level = row.level(pipeline.count("/") - 1)
    if board.status == "cancelling":
        level.cancelled += 1
    else:
        level.failed += 1
        row.error = _message(event.payload.get("error"))
    row.leave(pipeline)


_FOLDS: dict[str, Callable[[Board, Event], None]] = {
    "playbook.execution.requested": _requested,
    "workflow.queued": _queued,
    "workflow.admitted": _resumed,
    "workflow.paused": _paused,
    "workflow.resumed": _resumed,
    "workflow.cancelled": _cancelled,
    "workflow.forked": _forked,
    "workflow.finished": _finished,
    "step.scheduled": _scheduled,
    "step.skipped": _skipped,
    "step.done": _step_done,
    "step.failed": _step_failed,
    "next.evaluated": _evaluated,
    "task.started": _task_started,
    "task.done": _task_done,
    "task.suspended": _task_suspended,
    "task.resumed": _task_resumed,
    "loop.started": _loop_started,
    "loop.done": _loop_done,
    "loop.iteration.done": _iteration_done,
    "loop.iteration.failed": _iteration_failed,
}
