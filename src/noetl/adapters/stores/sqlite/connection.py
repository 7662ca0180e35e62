"""Connections to the file: one writer, any number of readers."""

from __future__ import annotations

import errno
import fcntl
import os
import re
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from noetl.errors import StoreError

STATEMENTS = 128
"""Prepared statements kept for each connection: more than there are queries."""

_EVERYWHERE = """
PRAGMA busy_timeout = 5000
PRAGMA trusted_schema = OFF
PRAGMA cell_size_check = ON
PRAGMA temp_store = MEMORY
"""
_WRITER = """
PRAGMA synchronous = FULL
PRAGMA wal_autocheckpoint = 0
PRAGMA journal_size_limit = -1
PRAGMA foreign_keys = ON
PRAGMA cache_size = -16384
"""


def connect_writer(path: Path) -> sqlite3.Connection:
    """Open the file for writing; create it if needed, for its user alone."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    if not path.exists():
        os.close(os.open(path, flags, 0o600))
    db = _connect(path, "rw")
    try:
        _set(db, _EVERYWHERE)
        (mode,) = db.execute("PRAGMA journal_mode = WAL").fetchone()
        if mode != "wal":
            message = f"{path}: the file system cannot hold a write-ahead log"
            raise StoreError(message, "store.io")
        _set(db, _WRITER)
    except BaseException:
        db.close()
        raise
    return db


def connect_reader(path: Path) -> sqlite3.Connection:
    """Open the file for reading: it sees commits only, and never blocks the writer."""
    if not path.exists():
        raise StoreError(f"{path} does not exist", "store.missing")
    db = _connect(path, "ro")
    try:
        _set(db, _EVERYWHERE)
    except BaseException:
        db.close()
        raise
    return db


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    return sqlite3.connect(
        f"{path.as_uri()}?mode={mode}",
        uri=True,
        isolation_level=None,  # transactions are explicit
        check_same_thread=False,  # one thread at a time uses a connection
        cached_statements=STATEMENTS,
    )


def _set(db: sqlite3.Connection, pragmas: str) -> None:
    for pragma in pragmas.strip().splitlines():
        db.execute(pragma).fetchall()


_MOUNTS = Path("/proc/self/mountinfo")
_NETWORK = re.compile(
    r"(nfs\d?|cifs|smb\d?|smbfs|ncpfs|afs|ceph|lustre|gpfs|beegfs|glusterfs)"
    r"|fuse\.(sshfs|glusterfs|ceph.*|s3fs|rclone|smb.*|juicefs|gcsfuse|davfs.*)"
)
_ESCAPE = re.compile(r"\\(\d{3})")


def refuse_network(path: Path) -> None:
    """Raise if the file is on a network file system, as far as Linux reports it."""
    try:
        mounts = _MOUNTS.read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return  # without Linux's /proc the file system is unknown, and accepted
    kind = filesystem_of(path, mounts)
    if kind is not None and _NETWORK.fullmatch(kind):
        raise StoreError(
            f"{path} is on a network file system ({kind}); "
            "a store must be on a local disk",
            "store.network_fs",
        )


def filesystem_of(path: Path, mounts: str) -> str | None:
    """Return the type of the innermost mount over an absolute path."""
    found, depth = None, -1
    for line in mounts.splitlines():
        left, separator, right = line.partition(" - ")
        if not separator:
            continue
        point = Path(_ESCAPE.sub(lambda m: chr(int(m[1], 8)), left.split()[4]))
        # A later line is mounted over an earlier one at the same path.
        if path.is_relative_to(point) and len(point.parts) >= depth:
            found, depth = right.split()[0], len(point.parts)
    return found


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
"""Kinds after which the content of the file is unknown until it is opened again."""


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


class Lock:
    """The writer's lock, held until ``release`` or the end of the process.

    The lock is on a file beside the store: closing any descriptor of the store itself
    would drop the locks that SQLite has on it in this process.
    """

    def __init__(self, store: Path) -> None:
        path = _beside(store)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._file = os.open(path, flags, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            who = _holder(self._file)
            os.close(self._file)
            message = f"{store} is in use by {who}"
            raise StoreError(message, "store.locked") from None
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)

    def publish_address(self, address: str) -> None:
        """Write the address of the holder's control socket into the lock file."""
        text = f"{os.getpid()}\n{address}\n".encode()
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, text, 0)

    def release(self) -> None:
        # Keep the file: after its removal, two processes could lock two files. Its text
        # is read while the lock is held, and may stay.
        with suppress(OSError):
            os.ftruncate(self._file, 0)
        os.close(self._file)


class Holder(NamedTuple):
    """The process that writes a store, and the address of its control socket."""

    process: str
    socket: str | None

    def __str__(self) -> str:
        return f"process {self.process}" if self.process else "another process"


def find_holder(store: Path) -> Holder | None:
    """Return the process that writes the store at this moment, if there is one.

    Takes a shared lock and releases it at once. A writer that starts in that moment
    finds the store locked, and chooses another one.
    """
    try:
        file = os.open(_beside(store), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _holder(file)
    finally:
        os.close(file)
    return None


def _beside(store: Path) -> Path:
    return store.with_name(store.name + ".lock")


def _holder(file: int) -> Holder:
    text = os.pread(file, 4096, 0).decode("utf-8", "surrogateescape")
    process, _, socket = text.partition("\n")
    return Holder(process, socket.strip() or None)
