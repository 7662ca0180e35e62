"""The log as JSON lines: a row per event or execution, some at a time."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec

from noetl.adapters.stores.sqlite import SqliteStore
from noetl.engine.document import elapsed_ms
from noetl.engine.tracing import event_line
from noetl.ports import Summary
from noetl.types import JSON

PAGE = 2_000

_encode = msgspec.json.Encoder().encode


async def event_lines(
    store: SqliteStore, execution_id: str, last: int | None = None
) -> AsyncIterator[bytes]:
    """The events up to ``last``, or to the end, a page of lines at a time.

    No transaction is held in between, so a writer is never kept from anything.
    """
    after, trace = 0, ""
    while last is None or after < last:
        limit = PAGE if last is None else min(PAGE, last - after)
        events = await store.read(execution_id, after=after, limit=limit)
        if not events:
            return
        trace = trace or events[0].payload["trace_id"]
        yield b"\n".join([event_line(event, trace) for event in events]) + b"\n"
        after += len(events)


def execution_line(summary: Summary, events: int) -> bytes:
    """One row of the table of executions."""
    error = summary.error or {}
    about = summary.playbook
    finished = summary.finished_at
    row: dict[str, JSON] = {
        "execution_id": summary.execution_id,
        "status": summary.status,
        "playbook": about.get("name"),
        "path": about.get("path"),
        "version": about.get("version"),
        "sha256": about.get("sha256"),
        "started_at": summary.started_at,
        "finished_at": finished,
        "duration_ms": elapsed_ms(summary.started_at, finished) if finished else None,
        "error_kind": error.get("kind"),
        "error_message": error.get("message"),
        "error_step": error.get("step"),
        "error": summary.error,
        "parent_id": summary.parent_id,
        "forked_from": (summary.forked_from or {}).get("execution_id"),
        "events": events,
    }
    return _encode(row) + b"\n"
