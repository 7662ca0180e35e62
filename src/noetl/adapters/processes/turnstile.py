"""Permits to begin: one for each call that waits in a process behind another."""

from __future__ import annotations

import os
import socket
import struct
from collections.abc import Sequence

_NUMBER = 8
_MOST = 4096


class Turnstile:
    """A permit is taken by the process, or taken back by the worker: never by both.

    Both hold the same end of a socket, so the kernel decides who reads a number first.
    A call whose permit was taken back has not begun and never will in that process.
    """

    def __init__(self) -> None:
        self._ours, self._theirs = socket.socketpair()

    def give(self) -> int:
        """The end of the process: who takes it closes it."""
        return os.dup(self._theirs.fileno())

    def permit(self, numbers: Sequence[int]) -> bool:
        """Whether there was room for them: there always is, unless code interferes."""
        permits = struct.pack(f"!{len(numbers)}Q", *numbers)
        try:
            return self._ours.send(permits, socket.MSG_DONTWAIT) == len(permits)
        except OSError:
            return False

    def take_back(self) -> tuple[int, ...]:
        """The numbers that nobody has taken; what is no number shows as one too many.

        Never by the flag of the file: the process shares it, and could make us wait.
        """
        try:
            permits = self._theirs.recv(_MOST, socket.MSG_DONTWAIT)
        except OSError:
            return ()
        count, rest = divmod(len(permits), _NUMBER)
        numbers = struct.unpack_from(f"!{count}Q", permits)
        return (*numbers, 0) if rest else numbers

    def close(self) -> None:
        self._ours.close()
        self._theirs.close()
