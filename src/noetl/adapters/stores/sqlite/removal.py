"""Executions that are over and no longer wanted: removed as a whole."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from noetl.adapters.stores.encoding import decode_summary
from noetl.adapters.stores.sqlite.queries import SQL
from noetl.adapters.stores.sqlite.transitions import SEQ_BITS
from noetl.errors import StoreError

_NAME = "event_is_never_removed"
_GUARD = "SELECT sql FROM sqlite_master WHERE type = 'trigger' AND name = ?"


def remove(db: sqlite3.Connection, execution_ids: Sequence[str]) -> None:
    """All of them or none. Raises ``StoreError`` if one is not over."""
    numbers = []
    for execution_id in execution_ids:
        row = db.execute(SQL["head"], (execution_id,)).fetchone()
        if row is None:
            raise StoreError(f"there is no execution {execution_id}", "store.missing")
        if decode_summary(row[3]).finished_at is None:
            message = f"execution {execution_id} is not over: it is not removed"
            raise StoreError(message, "store.conflict")
        numbers.append((row[0], execution_id))
    # The log gives nothing away. Its guard is off while whole executions go, and back
    # before anything of it is stored.
    [[guard]] = db.execute(_GUARD, (_NAME,)).fetchall()
    db.execute(f"DROP TRIGGER {_NAME}")
    for number, execution_id in numbers:
        first = number << SEQ_BITS
        db.execute(SQL["remove_events"], (first, first + (1 << SEQ_BITS) - 1))
        db.execute(SQL["remove_commands"], (f"{execution_id}-", f"{execution_id}."))
        db.execute(SQL["disarm_all"], (number,))
        db.execute(SQL["leave_place"], (number,))
        db.execute(SQL["remove_snapshot"], (number,))
        db.execute(SQL["remove_execution"], (number,))
    db.execute(guard)
