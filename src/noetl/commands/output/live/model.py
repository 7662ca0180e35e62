"""Events → what is drawn. Pure: it reads no clock and knows no terminal.

It costs little per event and keeps nothing of what is over but counts, so a loop of a
million iterations, or a step that runs ten thousand times, takes one row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import datetime

from noetl.commands.live.rows import Activity, On, Row
from noetl.engine.events import Event
from noetl.types import JSON

_WAITS: dict[str, On] = {
    "delay": "retry",
    "timer": "timer",
    "signal": "signal",
    "event": "event",
    "playbook": "playbook",
}


class Board:
    """A row per step, in the order in which they were first reached."""

    def __init__(self) -> None:
        self.rows: dict[str, Row] = {}
        self.name = ""
        self.execution_id = ""
        self.status = "running"
        self.started: float | None = None
        self.ended: float | None = None
        self.error = ""

    def take(self, events: Iterable[Event]) -> None:
        for event in events:
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
        """Take samples, so that a rate can be told."""
        for row in self.rows.values():
            if row.open:
                for level in row.levels:
                    level.pace.note(now, level.over)


def seconds_of(timestamp: str) -> float:
    """An event's time, in seconds since the epoch."""
    return datetime.fromisoformat(timestamp).timestamp()


def read_wait(event: Event) -> Activity:
    """What a ``task.suspended`` says that the pipeline waits for."""
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
    """What was under way in the origin begins again."""
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


# -- tasks -----------------------------------------------------------------------


def _task_started(board: Board, event: Event) -> None:
    activity = Activity(event.task_label or "", event.attempt or 1)
    board.row(event).work(_pipeline(event), activity)


def _task_done(board: Board, event: Event) -> None:
    row, directive = board.row(event), event.payload["directive"]
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
        known.until = activity.until  # the retry, whose delay this is, says why
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
    board.row(event).level(depth).total += event.payload["total"]


def _iteration_done(board: Board, event: Event) -> None:
    row, pipeline = board.row(event), event.iteration_id or ""
    row.level(pipeline.count("/") - 1).done += 1
    row.leave(pipeline)


def _iteration_failed(board: Board, event: Event) -> None:
    row, pipeline = board.row(event), event.iteration_id or ""
    row.level(pipeline.count("/") - 1).failed += 1
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
    "task.started": _task_started,
    "task.done": _task_done,
    "task.suspended": _task_suspended,
    "task.resumed": _task_resumed,
    "loop.started": _loop_started,
    "loop.iteration.done": _iteration_done,
    "loop.iteration.failed": _iteration_failed,
}
