"""What SQLite and the system report, as errors of the store with stable kinds."""

from __future__ import annotations

import errno
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from noetl.errors import StoreError

_KINDS = {
    sqlite3.SQLITE_FULL: "store.full",
    sqlite3.SQLITE_IOERR: "store.io",
    sqlite3.SQLITE_CANTOPEN: "store.io",
    sqlite3.SQLITE_READONLY: "store.readonly",
    sqlite3.SQLITE_PERM: "store.readonly",
    sqlite3.SQLITE_CORRUPT: "store.corrupt",
    sqlite3.SQLITE_NOTADB: "store.corrupt",
    sqlite3.SQLITE_BUSY: "store.busy",
    sqlite3.SQLITE_LOCKED: "store.busy",
}
_ERRNO = {
    errno.ENOSPC: "store.full",
    errno.EDQUOT: "store.full",
    errno.EACCES: "store.readonly",
    errno.EPERM: "store.readonly",
    errno.EROFS: "store.readonly",
}
LASTING = frozenset({"store.io", "store.corrupt"})
"""After these nobody knows what the file holds until it is opened again."""


def translate(error: sqlite3.Error | OSError, path: Path) -> StoreError:
    if isinstance(error, OSError):
        kind = _ERRNO.get(error.errno or 0, "store.io")
    else:
        # Errors of the Python module itself have no code.
        code = getattr(error, "sqlite_errorcode", None) or 0
        kind = _KINDS.get(code & 0xFF, "store.error")
    return StoreError(f"{path}: {error}", kind)


@contextmanager
def translated(path: Path) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        raise translate(error, path) from error
