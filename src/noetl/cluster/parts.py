"""Programs in the background: a file that each of them keeps locked says that it lives.

The lock is inherited by the program and by its children. However it ends, the lock ends
with the last of them: nothing is ever stale, and nothing starts beside a dying one.
"""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TypedDict

import msgspec

from noetl.engine.times import rfc3339
from noetl.errors import ConfigError
from noetl.locked import held_text

PATIENCE = 30.0
"""Seconds that a part has to start, or to stop."""
LOOK = 0.02
_FLAGS = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
_LARGEST = 10 * 1024 * 1024


class User(TypedDict, total=False):
    """Whom a program runs as; empty for whoever started it."""

    user: int
    group: int
    extra_groups: Sequence[int]


class Part(msgspec.Struct, frozen=True, kw_only=True):
    pid: int
    port: int
    started_at: str


class Program(msgspec.Struct, frozen=True, kw_only=True):
    """What to start: ``command`` for a port, and how to know that it is ready.

    ``prepare`` is called when nothing of an earlier one lives any more.
    """

    name: str
    command: Callable[[int], Sequence[str]]
    folder: Path
    is_ready: Callable[[Part], bool]
    user: User
    prepare: Callable[[], None] = lambda: None


def find_part(file: Path) -> Part | None:
    """The part that lives at this moment."""
    text = held_text(file)
    try:
        return msgspec.json.decode(text, type=Part) if text else None
    except msgspec.DecodeError:
        return None  # it is just being written


def last_port(file: Path) -> int | None:
    """Where it was when it last ran."""
    try:
        return msgspec.json.decode(file.read_bytes(), type=Part).port
    except (OSError, msgspec.DecodeError):
        return None


def start_part(file: Path, program: Program, log: Path) -> Part:
    """Start it; it is ready when this returns. Raises ``ConfigError``."""
    log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    with _locked(file, program.name) as lock, _opened(log) as output:
        program.prepare()
        port = _free_port(last_port(file))
        begin = os.fstat(output).st_size
        process = subprocess.Popen(
            program.command(port),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=program.folder,
            start_new_session=True,
            pass_fds=[lock],
            **program.user,
        )
        part = Part(pid=process.pid, port=port, started_at=rfc3339(time.time()))
        os.ftruncate(lock, 0)
        os.pwrite(lock, msgspec.json.encode(part), 0)
        deadline = time.monotonic() + PATIENCE
        while not program.is_ready(part):
            if process.poll() is not None:
                reason = _reason(log, begin)
                raise ConfigError(f"{program.name} did not start: {reason}")
            if time.monotonic() > deadline:
                process.terminate()
                message = f"{program.name} was not ready in {PATIENCE:g} s"
                raise ConfigError(f"{message}; see {log}")
            time.sleep(LOOK)
        return part


def stop_part(file: Path, name: str, number: signal.Signals) -> Part | None:
    """The part that was stopped, if there was one. Raises ``ConfigError``."""
    part = find_part(file)
    if part is None:
        return None
    try:
        os.kill(part.pid, number)
    except ProcessLookupError:
        pass  # it ends by itself, and its children hold the lock for a moment
    except PermissionError:
        message = f"{name} (process {part.pid}) belongs to another user"
        raise ConfigError(f"{message}; stop it as that user") from None
    deadline = time.monotonic() + PATIENCE
    while find_part(file) is not None:
        if time.monotonic() > deadline:
            raise ConfigError(f"{name} (process {part.pid}) does not stop")
        time.sleep(LOOK)
    return part


@contextmanager
def _locked(file: Path, name: str) -> Iterator[int]:
    """What a killed program has left behind may hold the lock a moment longer."""
    descriptor = os.open(file, _FLAGS, 0o600)
    deadline = time.monotonic() + PATIENCE
    try:
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if time.monotonic() > deadline:
                    message = f"processes of an earlier {name} do not end"
                    raise ConfigError(f"{message}; {file} names it") from None
                time.sleep(LOOK)
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def _opened(log: Path) -> Iterator[int]:
    if log.is_file() and log.stat().st_size > _LARGEST:
        log.replace(log.with_suffix(".old"))
    flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    descriptor = os.open(log, flags, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def _free_port(wanted: int | None) -> int:
    """The port it had before, if nobody took it: others have learnt where it is."""
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
    """What it said last, without the moment at which it did."""
    with log.open("rb") as stream:
        stream.seek(begin)
        lines = stream.read(65536).decode("utf-8", "replace").strip().splitlines()
    fatal = [line for line in lines if "FATAL" in line or "[FTL]" in line]
    said = (fatal or lines)[-1:]
    return f"{said[0]}; see {log}" if said else f"it says nothing; see {log}"
