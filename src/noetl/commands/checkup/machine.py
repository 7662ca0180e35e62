"""The machine: interpreter, SQLite, clock, network to itself."""

from __future__ import annotations

import platform
import socket
import sqlite3
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime

from noetl.commands.checkup.finding import Finding

Version = tuple[int, ...]

_PYTHON = (3, 11)
_SQLITE = (3, 24)  # the first with ON CONFLICT DO UPDATE
_SQLITE_RESET = (3, 51, 3)
_PAST = datetime(2025, 1, 1, tzinfo=UTC).timestamp()
_FUTURE = datetime(2100, 1, 1, tzinfo=UTC).timestamp()
_PATIENCE = 5.0


def check_machine() -> Iterator[Finding]:
    yield judge_python(sys.version_info[:3])
    yield judge_sqlite(sqlite3.sqlite_version_info)
    yield judge_clock(time.time())
    yield check_loopback()


def judge_python(version: Version) -> Finding:
    shown = f"{_dotted(version)} ({platform.python_implementation()})"
    if version < _PYTHON:
        message = f"{shown}; NoETL needs {_dotted(_PYTHON)}"
        return Finding("python", "problem", message, "install a newer Python")
    return Finding("python", "ok", shown)


def judge_sqlite(version: Version) -> Finding:
    shown = _dotted(version)
    if version < _SQLITE:
        message = f"{shown}; the log needs {_dotted(_SQLITE)}"
        return Finding("sqlite", "problem", message, "use a Python with a newer SQLite")
    if version < _SQLITE_RESET:
        shown += (
            f"; below {_dotted(_SQLITE_RESET)} it has a bug that takes two writers of "
            "one write-ahead log, and NoETL is always one"
        )
    return Finding("sqlite", "ok", shown)


def judge_clock(now: float) -> Finding:
    shown = f"{datetime.fromtimestamp(now, UTC):%Y-%m-%d %H:%M:%S} UTC"
    if not _PAST <= now < _FUTURE:
        cure = "set it, for instance by a time service (NTP)"
        return Finding("clock", "problem", f"{shown} cannot be right", cure)
    return Finding("clock", "ok", shown)


def check_loopback() -> Finding:
    """Servers, workers and tools of one machine talk over it."""
    try:
        with (
            socket.create_server(("127.0.0.1", 0)) as server,
            socket.create_connection(server.getsockname(), _PATIENCE) as ours,
        ):
            server.settimeout(_PATIENCE)
            theirs, _ = server.accept()
            with theirs:
                theirs.sendall(b"noetl")
                answer = ours.recv(5)
    except OSError as error:
        cure = "bring the interface up: ip link set lo up"
        return Finding("loopback", "problem", f"127.0.0.1: {error}", cure)
    if answer != b"noetl":
        cure = "look for a proxy or firewall on this machine"
        return Finding("loopback", "problem", "127.0.0.1 lost what was sent", cure)
    return Finding("loopback", "ok", "127.0.0.1 answers")


def _dotted(version: Version) -> str:
    return ".".join(map(str, version))
