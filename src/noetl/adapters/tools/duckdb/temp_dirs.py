"""Temporary folders of calls: rows of tables, and spilled data of DuckDB."""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import tempfile
import time
from contextlib import suppress
from hashlib import sha256
from typing import NamedTuple

from noetl.adapters.files import Roots
from noetl.errors import ToolError

_PREFIX = "duckdb-"
_LOCK = "lock"
_MAX_IDLE_S = 600.0  # longer than a process of an execution lives without a call


class Bench:
    """Folder of a tool under the home, locked while the tool lives.

    Folders that killed processes left, which may hold gigabytes, are removed.
    """

    def __init__(self, home: str | None) -> None:
        self._above = os.path.join(home, "tmp") if home else tempfile.gettempdir()
        self._folder: str | None = None
        self._lock = -1
        self._places: dict[str, float] = {}  # path to the time of its last use

    def scratch(self) -> Scratch:
        """Return a folder for one call; the first call blocks shortly."""
        return Scratch(os.path.join(self._find(), secrets.token_hex(8)))

    def place(self, execution_id: str) -> Place:
        """Return the folder of an execution, the only one that its sandbox contains."""
        now = time.monotonic()
        for path, used in list(self._places.items()):
            if now - used > _MAX_IDLE_S:
                del self._places[path]
                with suppress(OSError):  # a call is using it
                    os.rmdir(path)
        name = sha256(execution_id.encode()).hexdigest()[:32]
        path = os.path.join(self._find(), name)
        os.makedirs(path, mode=0o700, exist_ok=True)
        self._places[path] = now
        scratch = Scratch(os.path.join(path, secrets.token_hex(8)))
        scratch.make()
        return Place(path, scratch)

    def _find(self) -> str:
        if self._folder is None:
            os.makedirs(self._above, mode=0o700, exist_ok=True)
            self._sweep()
            self._folder = self._settle()
        return self._folder

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
            os.close(self._lock)  # another process removed it before it was locked

    def _sweep(self) -> None:
        for name in os.listdir(self._above):
            folder = os.path.join(self._above, name)
            if name.startswith(_PREFIX):
                with suppress(OSError), open(os.path.join(folder, _LOCK)) as lock:
                    fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    shutil.rmtree(folder, ignore_errors=True)


class Place(NamedTuple):
    """Folder of an execution, and in it that of a call."""

    folder: str
    scratch: Scratch


class Scratch:
    """Folder of a call, created with its first file."""

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


NO_NETWORK = "is not on this machine: DuckDB has no network; fetch it with kind http"


def find_file(roots: Roots, path: str, where: str) -> str:
    """Return the real path of a file. Raises ``ToolError`` if it is denied."""
    file = roots.locate(path, where, "duckdb.external_access")
    if file in roots.folders:
        raise ToolError("tool.contract", f"{where}: '{path}' is a folder")
    return file


def find_database(roots: Roots, path: str, where: str) -> str:
    """Return the real path of a database, and check its log beside it."""
    file = find_file(roots, path, where)
    if os.path.islink(f"{file}.wal"):
        message = f"{where}: '{path}.wal', the database's log, must not be a link"
        raise ToolError("duckdb.external_access", message)
    return file
