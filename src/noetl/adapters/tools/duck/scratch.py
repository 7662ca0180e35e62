"""Folders for the time of a call: rows on their way in, and what memory cannot hold."""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import tempfile
from contextlib import suppress

_PREFIX = "duckdb-"
_LOCK = "lock"


class Bench:
    """A tool's place under the home, locked while the tool lives.

    What a killed process left is removed by the next one: it can be gigabytes.
    """

    def __init__(self, home: str | None) -> None:
        self._above = os.path.join(home, "tmp") if home else tempfile.gettempdir()
        self._folder: str | None = None
        self._lock = -1

    def scratch(self) -> Scratch:
        """A folder for one call; blocks a little, the first time."""
        if self._folder is None:
            os.makedirs(self._above, mode=0o700, exist_ok=True)
            self._sweep()
            self._folder = self._settle()
        return Scratch(os.path.join(self._folder, secrets.token_hex(8)))

    def close(self) -> None:
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            os.close(self._lock)
            self._folder = None

    def _settle(self) -> str:
        while True:
            folder = os.path.join(self._above, _PREFIX + secrets.token_hex(8))
            os.mkdir(folder, 0o700)
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
            self._lock = os.open(os.path.join(folder, _LOCK), flags, 0o600)
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            if os.path.isdir(folder):
                return folder
            os.close(self._lock)  # somebody swept it away before it was locked

    def _sweep(self) -> None:
        for name in os.listdir(self._above):
            folder = os.path.join(self._above, name)
            if name.startswith(_PREFIX):
                with suppress(OSError), open(os.path.join(folder, _LOCK)) as lock:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(folder, ignore_errors=True)


class Scratch:
    """Made when something is written, by us or by DuckDB."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._count = 0

    def make(self) -> None:
        os.makedirs(self.path, mode=0o700, exist_ok=True)

    def write(self, data: bytes) -> str:
        self.make()
        self._count += 1
        file = os.path.join(self.path, f"{self._count}.json")
        with open(file, "wb") as opened:
            opened.write(data)
        return file

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
