"""Background services, each with a locked file while it is alive.

The service and its children inherit the lock, so it ends with the last of them: a file
is never stale, and no service starts while an earlier one is still stopping.
"""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, TypedDict, TypeVar

import msgspec

from noetl.engine.times import rfc3339
from noetl.errors import ConfigError
from noetl.local.process_files import held_text

POLL_INTERVAL_S = 0.02
"""Seconds between two polls."""
_MAX_BYTES = 65_536

T = TypeVar("T")


def start_in_background(
    name: str,
    command: Sequence[str],
    output: int,
    *,
    find: Callable[[int], T | None],
    last_words: Callable[[], str],
    log: Path,
    patience: float,
    options: Mapping[str, Any] | None = None,
) -> T:
    """Start a program, and poll ``find`` until it returns a value for the process.

    The program writes to ``output``, a descriptor of the file ``log``. ``options`` are
    those of ``subprocess.Popen``. Raises ``ConfigError`` with the last lines of a
    program that exited, or after ``patience`` seconds.
    """
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=output,
        start_new_session=True,
        **(options or {}),
    )
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        found = find(process.pid)
        if found is not None:
            return found
        if process.poll() is not None:
            raise ConfigError(f"{name} did not start: {last_words()}")
        time.sleep(POLL_INTERVAL_S)
    process.terminate()
    raise ConfigError(f"{name} was not ready in {patience:g} s; see {log}")


def start_role(
    name: str,
    command: Sequence[str],
    log: Path,
    find: Callable[[int], T | None],
    patience: float,
    environment: Mapping[str, str] | None = None,
) -> T:
    """Start a NoETL role, whose last line of output is the reason of its exit.

    ``environment`` replaces that of this process.
    """
    log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with log.open("ab") as stream:
        begin = stream.tell()

        def last_words() -> str:
            said = read_lines(log, begin)
            return said[-1].removeprefix("noetl: ") if said else "it printed nothing"

        return start_in_background(
            name,
            command,
            stream.fileno(),
            find=find,
            last_words=last_words,
            log=log,
            patience=patience,
            options={} if environment is None else {"env": dict(environment)},
        )


def read_lines(log: Path, begin: int) -> list[str]:
    """Read the lines that a program has written to its log since ``begin``."""
    with log.open("rb") as stream:
        stream.seek(begin)
        text = stream.read(_MAX_BYTES).decode("utf-8", "replace")
    return text.strip().splitlines()


TIMEOUT_S = 30.0
"""Maximum seconds for a service to start or to stop."""
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
_MAX_LOG_BYTES = 10 * 1024 * 1024


class User(TypedDict, total=False):
    """The user that a program runs as; empty for the current user."""

    user: int
    group: int
    extra_groups: Sequence[int]


class Part(msgspec.Struct, frozen=True, kw_only=True):
    pid: int
    port: int
    started_at: str


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """A program to start: its ``command`` for a port, and a test of its readiness.

    ``prepare`` is called when no process of an earlier start is left.
    """

    name: str
    command: Callable[[int], Sequence[str]]
    folder: Path
    is_ready: Callable[[Part], bool]
    user: User
    prepare: Callable[[], None] = lambda: None


def find_part(file: Path) -> Part | None:
    """Find the running service."""
    text = held_text(file)
    try:
        return msgspec.json.decode(text, type=Part) if text else None
    except msgspec.DecodeError:
        return None  # the service is just writing it


def last_port(file: Path) -> int | None:
    """Return the port of the last start."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=Part).port
    except (OSError, msgspec.DecodeError):
        return None


def start_part(file: Path, program: Program, log: Path) -> Part:
    """Start a service and wait until it is ready. Raises ``ConfigError``."""
    log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _locked(file, program.name) as lock, _opened(log) as output:
        program.prepare()
        port = _free_port(last_port(file))
        begin = os.fstat(output).st_size

        @cache
        def note(pid: int) -> Part:
            part = Part(pid=pid, port=port, started_at=rfc3339(time.time()))
            os.ftruncate(lock, 0)
            os.pwrite(lock, msgspec.json.encode(part), 0)
            return part

        def find(pid: int) -> Part | None:
            part = note(pid)
            return part if program.is_ready(part) else None

        return start_in_background(
            program.name,
            program.command(port),
            output,
            find=find,
            last_words=lambda: _reason(log, begin),
            log=log,
            patience=TIMEOUT_S,
            options={"cwd": program.folder, "pass_fds": [lock], **program.user},
        )


def stop_part(file: Path, name: str, number: signal.Signals) -> Part | None:
    """Stop a service and return it, if it was running. Raises ``ConfigError``."""
    part = find_part(file)
    if part is None:
        return None
    try:
        os.kill(part.pid, number)
    except ProcessLookupError:
        pass  # it has ended, and its children hold the lock for a moment
    except PermissionError:
        message = f"{name} (process {part.pid}) belongs to another user"
        raise ConfigError(f"{message}; stop it as that user") from None
    deadline = time.monotonic() + TIMEOUT_S
    while find_part(file) is not None:
        if time.monotonic() > deadline:
            raise ConfigError(f"{name} (process {part.pid}) does not stop")
        time.sleep(POLL_INTERVAL_S)
    return part


@contextmanager
def _locked(file: Path, name: str) -> Iterator[int]:
    """Take the lock; wait for remaining processes of a killed service."""
    descriptor = os.open(file, _FLAGS, 0o600)
    deadline = time.monotonic() + TIMEOUT_S
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    message = f"processes of an earlier {name} are still running"
                    raise ConfigError(f"{message}; see {file}") from None
                time.sleep(POLL_INTERVAL_S)
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _opened(log: Path) -> Iterator[int]:
    if log.is_file() and log.stat().st_size > _MAX_LOG_BYTES:
        log.replace(log.with_suffix(".old"))
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    descriptor = os.open(log, flags, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _free_port(wanted: int | None) -> int:
    """Return the previous port if it is free, as clients know it, or another one."""
    for port in (wanted, 0) if wanted else (0,):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    raise ConfigError("no port of 127.0.0.1 is free")


def _reason(log: Path, begin: int) -> str:
    """Return the last fatal line of the log, or else its last line."""
    lines = read_lines(log, begin)
    fatal = [line for line in lines if "FATAL" in line or "[FTL]" in line]
    said = (fatal or lines)[-1:]
    return f"{said[0]}; see {log}" if said else f"it printed nothing; see {log}"
