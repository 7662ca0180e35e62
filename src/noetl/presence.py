"""Whether a server runs under a home, and where: a locked file says so."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from noetl.errors import ConfigError
from noetl.locked import held_text, take, write


class Server(msgspec.Struct, frozen=True, kw_only=True):
    """``url`` is None while it is starting; ``certificate`` is what it shows, in PEM;
    ``database`` is where its log is, if that is not the home; ``personal`` is the
    folder of the ``noetl up`` that started it."""

    pid: int
    host: str
    port: int
    version: str
    started_at: str
    url: str | None = None
    behind_proxy: bool = False
    tls_cert: str | None = None
    tls_key: str | None = None
    certificate: str | None = None
    database: str | None = None
    personal: str | None = None

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
        try:
            self._file = take(file)
        except BlockingIOError:
            other = find_server(file)
            who = f"process {other.pid}" if other else "another process"
            where = f" at {other.url}" if other and other.url else ""
            message = f"a server runs under {file.parent} already: {who}{where}"
            raise ConfigError(f"{message}; see noetl server status") from None
        os.ftruncate(self._file, 0)

    def announce(self, server: Server) -> None:
        write(self._file, msgspec.json.encode(server))

    def end(self) -> None:
        # The file stays: removing it would give two servers two different files.
        os.ftruncate(self._file, 0)
        os.close(self._file)


def find_server(file: Path) -> Server | None:
    """The server that runs at this moment; a killed one has left its name, no lock."""
    text = held_text(file)
    try:
        return msgspec.json.decode(text, type=Server) if text else None
    except msgspec.DecodeError:
        return None  # it is just being written
