"""Unit tests are pure: a process, a network, a database or a sleep fails them.

Event loops are allowed their pair of local sockets.
"""

from __future__ import annotations

import socket
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest

FORBIDDEN = frozenset(
    {
        *("subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.system"),
        *("socket.bind", "socket.connect", "socket.getaddrinfo"),
        "sqlite3.connect",
    }
)


class Guard:
    """Refuses what a unit test may not do, and remembers it in case it was caught."""

    def __init__(self) -> None:
        self.is_active = False
        self.refused: list[str] = []
        sys.addaudithook(self)

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if not self.is_active:
            return
        if event == "socket.__new__":
            if arguments[1] == socket.AF_UNIX:
                return
        elif event not in FORBIDDEN:
            return
        self.refuse(event)

    def refuse(self, event: str) -> None:
        self.refused.append(event)
        raise AssertionError(f"{event} in a unit test: it belongs to another folder")


GUARD = Guard()


@pytest.fixture(autouse=True)
def pure() -> Iterator[None]:
    sleep = time.sleep
    time.sleep = lambda seconds: GUARD.refuse("time.sleep")
    GUARD.refused.clear()
    GUARD.is_active = True
    yield
    GUARD.is_active = False
    time.sleep = sleep
    assert not GUARD.refused, f"not a unit test: {GUARD.refused}"
