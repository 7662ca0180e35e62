"""Whether a server runs under a home, and where: a locked file says so."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from noetl.errors import ConfigError

_FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


class Server(msgspec.Struct, frozen=True, kw_only=True):
    """``url`` is None while it is starting; ``database`` is where its log is, if that
    is not the home."""

    pid: int
    host: str
    port: int
    version: str
    started_at: str
    url: str | None = None
    behind_proxy: bool = False
    database: str | None = None

    @property
    def shared(self) -> bool:
        """Others do its work, and no log of the home has its executions."""
        return self.database is not None


def place_of(address: str) -> str:
    """Of a database: without user, password and options."""
    found = urlsplit(address)
    return f"{found.netloc.rpartition('@')[2]}{found.path}"


class Presence:
    """Held from the making of this object to ``end``, or to the end of the process."""

    def __init__(self, file: Path) -> None:
        self._file = os.open(file, _FLAGS, 0o600)
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            other = _read(self._file)
            os.close(self._file)
            who = f"process {other.pid}" if other else "another process"
            where = f" at {other.url}" if other and other.url else ""
            message = f"a server runs under {file.parent} already: {who}{where}"
            raise ConfigError(f"{message}; see noetl server status") from None
        os.ftruncate(self._file, 0)

    def announce(self, server: Server) -> None:
        body = msgspec.json.encode(server)
        os.ftruncate(self._file, 0)
        os.pwrite(self._file, body, 0)

    def end(self) -> None:
        # The file stays: removing it would give two servers two different files.
        os.ftruncate(self._file, 0)
        os.close(self._file)


def find_server(file: Path) -> Server | None:
    """The server that runs at this moment; a killed one has left its name, no lock."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _read(descriptor)
    finally:
        os.close(descriptor)
    return None


def _read(descriptor: int) -> Server | None:
    try:
        return msgspec.json.decode(os.pread(descriptor, 65536, 0), type=Server)
    except msgspec.DecodeError:
        return None  # it is just being written
