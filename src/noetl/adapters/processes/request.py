"""Requests to a process, permits to begin them, and replies."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from noetl.errors import ToolError
from noetl.types import JSON

if TYPE_CHECKING:
    from noetl.adapters.processes.sandbox import Sandbox


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """Call of ``code``, or of ``target``: a module and a function of it.

    ``environment`` has variables of this call alone; None for contained code.
    """

    args: Mapping[str, JSON]
    code: str | None = None
    target: tuple[str, str] | None = None
    environment: Mapping[str, str] | None = None

    def encode(self) -> bytes:
        """Encode all but the code, which is sent once, as the end of a JSON list."""
        return msgspec.json.encode((self.args, self.environment, self.target))[1:]


class Fault(msgspec.Struct):
    kind: str
    message: str
    type: str | None = None
    line: int | None = None
    traceback: str | None = None
    exit_code: int | None = None


class Reply(msgspec.Struct):
    """Reply of a process; ``took`` is in microseconds.

    After ``printed``, the process waits until the worker has read its output. A shared
    process does not run code that is not contained; the reply is ``foreign``.
    """

    number: int
    took: int
    result: JSON = None
    fault: Fault | None = None
    foreign: bool = False
    printed: bool = False
    spent: bool = False
    stdout: str = ""
    stderr: str = ""


class Ended(ToolError):
    """Error of a call whose process ended, with its output."""

    stdout = ""
    stderr = ""


class Key(NamedTuple):
    """Properties that two calls must have in common to share a process."""

    execution_id: str
    folder: str | None
    memory: int | None
    disk: int | None = None
    sandbox: Sandbox | None = None
    shared: bool = False  # by all executions, for code that leaves nothing behind
    alone: int = 0  # a unique number: the process serves this call and no other


_NUMBER = 8
_MAX_BYTES = 4096


class Turnstile:
    """Queue of permits, each taken by the process or revoked by the worker.

    Both hold the same end of a socket, so the kernel decides which one reads a number.
    A call whose permit was revoked has not begun and never will in that process.
    """

    def __init__(self) -> None:
        self._ours, self._theirs = socket.socketpair()

    def give(self) -> int:
        """Return the process's end; the caller closes it."""
        return os.dup(self._theirs.fileno())

    def permit(self, numbers: Sequence[int]) -> bool:
        """Add permits; returns False if code of the process has filled the socket."""
        permits = struct.pack(f"!{len(numbers)}Q", *numbers)
        try:
            return self._ours.send(permits, socket.MSG_DONTWAIT) == len(permits)
        except OSError:
            return False

    def take_back(self) -> tuple[int, ...]:
        """Revoke and return the remaining permits; a partial number counts as 0.

        It uses MSG_DONTWAIT, since the process shares the file's flags and could make
        the read block.
        """
        try:
            permits = self._theirs.recv(_MAX_BYTES, socket.MSG_DONTWAIT)
        except OSError:
            return ()
        count, rest = divmod(len(permits), _NUMBER)
        numbers = struct.unpack_from(f"!{count}Q", permits)
        return (*numbers, 0) if rest else numbers

    def close(self) -> None:
        self._ours.close()
        self._theirs.close()
