"""Incoming calls: frames from the channel, and permits to begin them."""

from __future__ import annotations

import json
import os
import struct
from collections import deque
from typing import Any

from .calls import Source

IN, PERMITS = 3, 5
HEADER = struct.Struct("!4sI")
NUMBER = struct.Struct("!Q")
CHUNK = 65536
CLOSED = 71


class Call:
    """Call of code, by its ``source``, or of a function, by its ``target``."""

    __slots__ = ("args", "begins", "environment", "number", "source", "target")

    def __init__(self, begins: bool, source: Source | None, told: list[Any]) -> None:
        self.begins = begins
        self.source = source
        self.number, _, self.args, self.environment, self.target = told


class Inbox:
    """Queue of calls of this process.

    A call may begin if the process was idle when it came, or if there is a permit for
    it. The worker takes a permit back when it gives the call to another process.
    """

    def __init__(self) -> None:
        for file in (IN, PERMITS):
            os.set_inheritable(file, False)
        os.set_blocking(PERMITS, False)
        self._data = bytearray()
        self._calls: deque[Call] = deque()
        self._sources: dict[int, Source] = {}
        self._permit = 0
        self._held = False

    def order(self) -> Any:
        """Read the order, which precedes all calls."""
        return json.loads(self._frame())

    def next(self) -> Call:
        """Wait for the next call; exits the process if the worker is gone."""
        while True:
            while self._calls:
                call = self._calls.popleft()
                if call.begins:
                    self._held = False
                    return call
                if not self._held and self._is_permitted(call.number):
                    return call
            self._fill()

    def hold(self) -> None:
        """Begin no further call before the worker has answered the last report."""
        self._held = True

    def _is_permitted(self, number: int) -> bool:
        if not self._permit:
            try:
                self._permit = NUMBER.unpack(os.read(PERMITS, NUMBER.size))[0]
            except BlockingIOError:
                return False
            except (OSError, struct.error):
                os._exit(CLOSED)
        if self._permit != number:
            return False  # the permit is for a later call
        self._permit = 0
        return True

    def _fill(self) -> None:
        begins, forget, told, calls = json.loads(self._frame())
        if forget:
            self._sources.clear()
        for name, text in told.items():
            self._sources[int(name)] = Source(text)
        for call in calls:
            source = self._sources[call[1]] if call[1] else None
            self._calls.append(Call(begins, source, call))
            begins = False

    def _frame(self) -> bytes:
        data = self._data
        wanted = HEADER.size
        while True:
            if len(data) >= HEADER.size:
                wanted = HEADER.size + HEADER.unpack_from(data)[1]
                if len(data) >= wanted:
                    break
            more = os.read(IN, CHUNK)
            if not more:
                os._exit(0)  # the worker is gone
            data += more
        body = bytes(data[HEADER.size : wanted])
        del data[:wanted]
        return body
