"""One writing process per store: an exclusive lock with a name on it."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from noetl.errors import StoreError


class Lock:
    """Held from the making of this object to ``release`` or the end of the process.

    It is a file beside the store, not the store itself: closing any descriptor of a
    file drops the locks which SQLite has in this process on the same file.
    """

    def __init__(self, store: Path) -> None:
        path = store.with_name(store.name + ".lock")
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._file = os.open(path, flags, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder, _, _ = os.read(self._file, 20).partition(b"\n")
            os.close(self._file)
            number = holder.decode("ascii", "replace")
            who = f"process {number}" if number else "another process"
            message = f"{store} is in use by {who}"
            raise StoreError(message, "store.locked") from None
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)

    def announce(self, where: str) -> None:
        """Say where the holder can be talked to, for whoever finds the lock taken."""
        text = f"{os.getpid()}\n{where}\n".encode()
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, text, 0)

    def release(self) -> None:
        # The file stays: removing it would give two openers two different files.
        os.ftruncate(self._file, 0)
        os.close(self._file)


def find_holder(store: Path) -> tuple[int, str | None] | None:
    """The process that has the store, and where it listens; None if nobody has it."""
    path = store.with_name(store.name + ".lock")
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            return None
        except BlockingIOError:
            number, _, where = os.read(file, 4096).decode().partition("\n")
            return int(number or 0), where.strip() or None
    finally:
        os.close(file)
