"""Unit tests are pure: a process, a network, a database or a sleep fails them.

Event loops are allowed their pair of local sockets.
"""

from __future__ import annotations

import json
import socket
import sys
import time
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from noetl.adapters.processes import code_inspection
from noetl.adapters.processes.noetl_child.compile_only import facts_of
from noetl.dsl.python_source import CodeFacts

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


def compile_here(codes: list[str]) -> list[CodeFacts]:
    """Compile code in this process, as the process of the validator does."""
    answers = [json.dumps(facts_of(code)) for code in codes]
    return [msgspec.json.decode(answer, type=CodeFacts) for answer in answers]


@pytest.fixture(autouse=True)
def pure() -> Iterator[None]:
    sleep, compile_apart = time.sleep, code_inspection._compile
    code_inspection._compile = compile_here
    time.sleep = lambda seconds: GUARD.refuse("time.sleep")
    GUARD.refused.clear()
    GUARD.is_active = True
    yield
    GUARD.is_active = False
    time.sleep = sleep
    code_inspection._compile = compile_apart
    assert not GUARD.refused, f"not a unit test: {GUARD.refused}"
