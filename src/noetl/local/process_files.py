"""Lock files of a running server and of running workers."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import msgspec

from noetl.errors import ConfigError

MAX_TRIES = 25
RETRY_DELAY_S = 0.02
_TAKE = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW
_MAX_BYTES = 65536


def take(file: Path) -> int:
    """Lock the file; return its descriptor. Raises ``BlockingIOError`` if it is held.

    A reader holds the lock for a moment, so several attempts are made.
    """
    descriptor = os.open(file, _TAKE, 0o600)
    for left in reversed(range(MAX_TRIES)):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return descriptor
        except BlockingIOError:
            if not left:
                os.close(descriptor)
                raise
            time.sleep(RETRY_DELAY_S)
    raise AssertionError


def write(descriptor: int, text: bytes) -> None:
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, text, 0)


def held_text(file: Path) -> bytes | None:
    """Return the text of the lock's holder; None if the file is not locked."""
    try:
        descriptor = os.open(file, _READ)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return os.pread(descriptor, _MAX_BYTES, 0)
    finally:
        os.close(descriptor)
    return None


class Server(msgspec.Struct, frozen=True, kw_only=True):
    """A running server. ``url`` is None during the start; ``certificate`` is its own in
    PEM; ``database`` is the place of its log, if that is not the home; ``personal`` is
    the folder of the ``noetl up`` that started it."""

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
        """True with a database: no log of the home has its executions."""
        return self.database is not None


def slot_of(address: str) -> str:
    """Return the address of a database without user, password and options."""
    found = urlsplit(address)
    return f"{found.netloc.rpartition('@')[2]}{found.path}"


class Presence:
    """The lock of a server, held until ``end`` or the end of the process."""

    def __init__(self, file: Path) -> None:
        try:
            self._file = take(file)
        except BlockingIOError:
            other = find_server(file)
            who = f"process {other.pid}" if other else "another process"
            where = f" at {other.url}" if other and other.url else ""
            message = f"a server is already running under {file.parent}: {who}{where}"
            raise ConfigError(f"{message}; see noetl server status") from None
        os.ftruncate(self._file, 0)

    def announce(self, server: Server) -> None:
        write(self._file, msgspec.json.encode(server))

    def end(self) -> None:
        # The file stays: a new one beside it would allow two servers.
        os.ftruncate(self._file, 0)
        os.close(self._file)


def find_server(file: Path) -> Server | None:
    """Find the running server; the file of a killed server is not locked."""
    text = held_text(file)
    try:
        return msgspec.json.decode(text, type=Server) if text else None
    except msgspec.DecodeError:
        return None  # the server is just writing it


class Member(msgspec.Struct, frozen=True, kw_only=True):
    """A worker process; without ``code`` it refuses tasks that run code."""

    pid: int
    name: str
    pool: str
    slots: int
    servers: list[str]
    started_at: str
    code: bool = True


class Attendance:
    """The lock of a worker process, held until ``end`` or the end of the process."""

    def __init__(self, folder: Path, member: Member) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._path = folder / f"{member.pid}.json"
        self._file = take(self._path)
        write(self._file, msgspec.json.encode(member))

    def end(self) -> None:
        self._path.unlink(missing_ok=True)
        os.close(self._file)


def members(folder: Path) -> list[Member]:
    """List the workers that are alive, in the order of their start."""
    return sorted(_living(folder), key=lambda member: (member.started_at, member.pid))


def killed_members(folder: Path) -> list[Member]:
    """List the workers that ended without removing their file."""
    return [member for _, member in _killed(folder)]


def forget_killed(folder: Path) -> None:
    """Remove the files of workers that were killed."""
    for path, _ in _killed(folder):
        path.unlink(missing_ok=True)


def _killed(folder: Path) -> Iterator[tuple[Path, Member]]:
    for path in sorted(folder.glob("*.json")) if folder.is_dir() else ():
        try:
            member = msgspec.json.decode(path.read_bytes(), type=Member)
        except (OSError, msgspec.MsgspecError):
            continue  # its worker is just writing it, or has removed it
        if held_text(path) is None:
            yield path, member


def _living(folder: Path) -> Iterator[Member]:
    """Read the locked files; others stay, as a starting worker may own one."""
    for path in sorted(folder.glob("*.json")) if folder.is_dir() else ():
        text = held_text(path)
        if text:  # otherwise its worker was killed, or is just writing it
            yield msgspec.json.decode(text, type=Member)
