"""Values of the execution, its log as a table, and the text of its playbook."""

from __future__ import annotations

from noetl.dsl.secret_patterns import mask
from noetl.engine.events import EVENTS, Event
from noetl.engine.times import seconds_of
from noetl.report.format import count, duration
from noetl.report.page_data import Data, PageData
from noetl.testing.describe_events import Narrator
from noetl.types import JSON

VALUE_CHARS = 60_000
PAYLOAD_CHARS = 2_500
EVENT_CHARS = 260
LINE_CHARS = 400
MAX_LINES = 2_000


def data(page: PageData) -> list[Data]:
    state = page.record.state
    result = state.result if state.finished else None
    parts: list[tuple[str, str, JSON]] = [
        ("Result", "The result of the execution.", result),
        ("Inputs", "The workload of the execution.", state.workload),
        ("Context", "The shared values in ctx, at the end.", state.ctx),
    ]
    return [
        {"label": label, "about": words, "value": page.value(value, VALUE_CHARS)}
        for label, words, value in parts
        if value not in (None, {})
    ]


def events(page: PageData) -> Data:
    record = page.record
    narrator = None
    if page.playbook is not None:
        narrator = Narrator(page.playbook, record.first)
    parts = list(record.events.parts())
    rows = [
        {"gap": f"… {count(number, 'event')} not shown"}
        if event is None
        else _row(page, event, narrator)
        for number, event in parts
    ]
    shown = sum(1 for _, event in parts if event is not None)
    total = record.events.count
    return {
        "rows": rows,
        "is_all": shown == total,
        "extent": f"All {count(total, 'event')} of the log."
        if shown == total
        else f"{shown:,} of {total:,} events: the first, the last, some errors. ",
    }


def _row(page: PageData, event: Event, narrator: Narrator | None) -> Data:
    payload = event.payload
    return {
        "seq": f"{event.seq:,}",
        "after": duration(seconds_of(event.timestamp) - page.record.started),
        "timestamp": event.timestamp,
        "name": event.name,
        "step": page.step(event.step) if event.step else None,
        "path": (event.iteration_id or "").partition("/")[2],
        "task": event.task_label,
        "status": event.status,
        "words": _words(event, narrator),
        "payload": page.value(payload, PAYLOAD_CHARS, "events") if payload else None,
    }


def _words(event: Event, narrator: Narrator | None) -> str:
    words = event.name if narrator is None else mask(narrator.words(event))
    if words.startswith(event.name):  # the narrator only repeats the name
        words = EVENTS[event.name].sentence if event.name in EVENTS else ""
    return words if len(words) <= EVENT_CHARS else words[:EVENT_CHARS] + "…"


def source(page: PageData) -> Data | None:
    if page.source is None:
        return None
    lines = page.source.splitlines()
    left = len(lines) - MAX_LINES
    return {
        "extent": f"{count(len(lines), 'line')}, as they were run",
        "lines": [_line(line) for line in lines[:MAX_LINES]],
        "rest": f"{count(left, 'more line')} not shown." if left > 0 else None,
    }


def _line(line: str) -> str:
    """Return a line with masked secrets: an author may have written one down."""
    hidden = mask(line)
    return hidden[:LINE_CHARS] + ("…" if len(hidden) > LINE_CHARS else "")
