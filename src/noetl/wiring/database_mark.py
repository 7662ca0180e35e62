"""The last execution that a server's home knows of its database.

A database that was restored ends before it: executions after the backup are missing,
and those that were open then run their last tasks again.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from noetl.adapters.secrets.private_files import write_private
from noetl.engine.times import rfc3339
from noetl.errors import StoreError
from noetl.local.home import Home
from noetl.local.process_files import slot_of

if TYPE_CHECKING:
    from noetl.adapters.postgres import Postgres


class Mark(msgspec.Struct, frozen=True):
    """``newest`` is the number of the newest execution, which no removal lowers."""

    database: str
    newest: int
    at: str


async def find_restored(home: Home, address: str, postgres: Postgres) -> str | None:
    """Return what is wrong if the database ends before what this home knows of it.

    Raises ``StoreError``.
    """
    try:
        mark = msgspec.json.decode(home.database_mark.read_bytes(), type=Mark)
    except (FileNotFoundError, msgspec.MsgspecError):
        return None
    newest = await _newest(postgres)
    if mark.database != slot_of(address) or newest is None or newest >= mark.newest:
        return None
    lost = mark.newest - newest
    return (
        f"the database was restored from a backup, or is another one: it ends {lost} "
        f"executions before what this server stored until {mark.at}"
    )


async def keep_mark(home: Home, address: str, postgres: Postgres) -> None:
    """Note the newest execution, if the database answers."""
    with suppress(StoreError):
        newest = await _newest(postgres)
        if newest is not None:
            mark = Mark(slot_of(address), newest, rfc3339(time.time()))
            write_private(home.database_mark, msgspec.json.encode(mark))


async def _newest(postgres: Postgres) -> int | None:
    """Return 0 without executions or tables, None if the role may not read this."""
    rows = await postgres.fetch(_NEWEST)
    return rows[0][0] if rows else 0


_NEWEST = """
SELECT CASE WHEN has_sequence_privilege(oid, 'SELECT')
  THEN coalesce(pg_sequence_last_value(oid), 0) END
FROM pg_class WHERE oid = to_regclass('execution_number_seq')
"""
