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
            holder = os.read(self._file, 20).decode("ascii", "replace").strip()
            os.close(self._file)
            who = f"process {holder}" if holder else "another process"
            message = f"{store} is in use by {who}"
            raise StoreError(message, "store.locked") from None
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        # The file stays: removing it would give two openers two different files.
        os.ftruncate(self._file, 0)
        os.close(self._file)
