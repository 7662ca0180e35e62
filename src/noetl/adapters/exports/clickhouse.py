"""Export to ClickHouse over HTTP: a row for each event, in JSON lines.

The table is a ReplacingMergeTree ordered by ``(execution_id, seq)``: a row that is sent
again replaces itself. ``schema.sql`` makes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b
from importlib.resources import files
from typing import Any

import msgspec

from noetl.adapters.exports.http import Receiver
from noetl.engine.events import Event
from noetl.ports import ExportedExecution

MAX_BYTES = 4 * 1024 * 1024
"""Bytes of rows after which a request is sent."""
_encode = msgspec.json.Encoder().encode


def schema() -> str:
    """Return the statements that make the table."""
    return (files(__package__) / "schema.sql").read_text(encoding="utf-8")


class ClickHouseExport:
    """Inserts events; those of sensitive playbooks without their payloads."""

    name = "clickhouse"

    def __init__(self, receiver: Receiver, table: str = "noetl_events") -> None:
        self._receiver = receiver
        self._insert = f"INSERT INTO {table} FORMAT JSONEachRow"

    async def take(self, executions: Sequence[ExportedExecution]) -> int:
        rows = bytearray()
        events, token = 0, blake2b(digest_size=16)
        for each in executions:
            about = each.summary.playbook
            path, hides = str(about.get("path") or ""), about.get("sensitive") is True
            async for page in each.pages():
                for event in page:
                    rows += row_of(event, path, hides=hides)
                events += len(page)
                last = page[-1]
                token.update(f"{last.execution_id}:{page[0].seq}-{last.seq} ".encode())
                if len(rows) >= MAX_BYTES:
                    await self._send(bytes(rows), token.hexdigest())
                    rows, token = bytearray(), blake2b(digest_size=16)
        if rows:
            await self._send(bytes(rows), token.hexdigest())
        return events

    async def _send(self, rows: bytes, token: str) -> None:
        params = {
            "query": self._insert,
            "insert_deduplication_token": token,
            "date_time_input_format": "best_effort",
            "wait_end_of_query": "1",
        }
        await self._receiver.post("/", rows, "application/x-ndjson", params)

    async def close(self) -> None:
        await self._receiver.close()


def row_of(event: Event, path: str, *, hides: bool) -> bytes:
    """Return the row of an event: its members, and the path of the playbook."""
    row: dict[str, Any] = msgspec.structs.asdict(event)
    del row["event_id"]
    row["path"] = path
    if hides:
        row["payload"] = {}
    return _encode({k: v for k, v in row.items() if v is not None}) + b"\n"
