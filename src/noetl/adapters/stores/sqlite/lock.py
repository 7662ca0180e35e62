"""One writing process per store: an exclusive lock with a name on it."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import NamedTuple

from noetl.errors import StoreError


class Lock:
    """Held from the making of this object to ``release`` or the end of the process.

    It is a file beside the store, not the store itself: closing any descriptor of a
    file drops the locks which SQLite has in this process on the same file.
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

    def announce(self, where: str) -> None:
        """Say where the holder can be talked to, for whoever finds the lock taken."""
        text = f"{os.getpid()}\n{where}\n".encode()
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, text, 0)

    def release(self) -> None:
        # The file stays: removing it would give two openers two different files.
        os.ftruncate(self._file, 0)
        os.close(self._file)


class Holder(NamedTuple):
    """Who writes a store, and where orders to it are taken."""

    process: str
    socket: str | None

    def __str__(self) -> str:
        return f"process {self.process}" if self.process else "another process"


def find_holder(store: Path) -> Holder | None:
    """Who writes the store at this moment; None if nobody does.

    It asks for a shared lock and gives it back at once. A writer that starts in that
    moment finds the store taken, and looks for another one.
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
