"""The logs of the home: whether each can be read, and who writes it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

from noetl.adapters.stores.sqlite.connections import connect_reader
from noetl.adapters.stores.sqlite.faults import translated
from noetl.adapters.stores.sqlite.lock import Holder, find_holder
from noetl.adapters.stores.sqlite.schema import check_version, newest_version
from noetl.commands.checkup.finding import Finding
from noetl.errors import StoreError
from noetl.home import Home

_CURES = {
    "store.corrupt": "move the file away, or restore it from a backup",
    "store.migration": "restore the file from a backup",
    "store.version": "upgrade NoETL to the version that wrote it",
    "store.readonly": "give yourself the right to read it and its folder",
}
_SKEW = 60.0


def check_logs(home: Home, now: float) -> Iterator[Finding]:
    logs = home.logs()
    if not logs:
        yield Finding("logs", "ok", "none yet")
    for path in logs:
        try:
            yield _check(path)
        except (StoreError, OSError) as error:
            kind = error.kind if isinstance(error, StoreError) else "store.readonly"
            yield Finding(path.name, "problem", str(error), _CURES.get(kind))
    newest = max((path.stat().st_mtime for path in logs), default=0.0)
    if newest > now + _SKEW:
        moment = f"{datetime.fromtimestamp(newest, UTC):%Y-%m-%d %H:%M:%S} UTC"
        message = f"a log was written at {moment}, which is still to come"
        cure = "set the clock, for instance by a time service (NTP)"
        yield Finding("clock", "warning", message, cure)


def _check(path: Path) -> Finding:
    with translated(path), closing(connect_reader(path)) as db:
        version = check_version(db, path, newest_version())
        count = _count(db) if version else 0
    return judge_log(path.name, version, count, _words(find_holder(path)))


def _count(db: sqlite3.Connection) -> int:
    """Numbers have no gaps, and the largest is found at once."""
    (largest,) = db.execute("SELECT max(number) FROM execution").fetchone()
    return largest or 0


def _words(holder: Holder | None) -> str | None:
    return str(holder) if holder is not None else None


def judge_log(name: str, version: int, executions: int, holder: str | None) -> Finding:
    used = f", in use by {holder}" if holder else ""
    count = "1 execution" if executions == 1 else f"{executions:,} executions"
    shown = f"version {version}, {count}{used}"
    if version < newest_version():
        cure = f"start a noetl run: it brings the log to version {newest_version()}"
        return Finding(name, "warning", shown, cure)
    return Finding(name, "ok", shown)
