"""What a process prints: read all the time, kept within bounds."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

KEPT = 1024 * 1024
_CHUNK = 65536
_PIPEFULS = 64


class Capture:
    """Reads a pipe to its end and keeps the head and the tail of what came.

    It never stops reading, so that a process that prints without end is not blocked
    for ever, and keeps at most ``limit`` bytes. ``before`` is called each time that the
    loop has something to read.
    """

    def __init__(self, limit: int = KEPT) -> None:
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        self._limit = limit
        self.ended = False
        self.before: Callable[[], None] | None = None
        self._head = bytearray()
        self._tail = bytearray()
        self._cut = 0
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._reader, self._ready)

    def give(self) -> int:
        """The end to write to: whoever takes it closes it, or the end never shows."""
        writer, self._writer = self._writer, -1
        return writer

    def drain(self) -> None:
        """Take what is in the pipe now; somebody who still writes cannot hold us."""
        for _ in range(_PIPEFULS):
            if not self._read():
                return

    @property
    def cut(self) -> int:
        """How many bytes were dropped."""
        return self._cut + max(0, len(self._tail) - self._limit // 2)

    def take(self) -> str:
        """What was kept, as text; it starts anew afterwards."""
        if not self._head:
            return ""
        cut = self.cut
        if cut:
            del self._tail[: -self._limit // 2]
            note = f"\n[… {cut} bytes cut …]\n".encode()
            text = b"".join((self._head, note, self._tail)).decode(errors="replace")
        else:
            text = (self._head + self._tail).decode(errors="replace")
        self._head, self._tail, self._cut = bytearray(), bytearray(), 0
        return text

    def close(self) -> None:
        if self._writer >= 0:
            os.close(self.give())
        if self._reader >= 0:
            self._loop.remove_reader(self._reader)
            os.close(self._reader)
            self._reader = -1

    def _ready(self) -> None:
        if self.before is not None:
            self.before()
        self._read()

    def _read(self) -> bool:
        if self.ended or self._reader < 0:
            return False
        try:
            data = os.read(self._reader, _CHUNK)
        except BlockingIOError:
            return False
        if not data:
            self.ended = True
            self._loop.remove_reader(self._reader)
            return False
        self._keep(data)
        return True

    def _keep(self, data: bytes) -> None:
        half = self._limit // 2
        room = half - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data
        if len(self._tail) > 4 * half:  # seldom, so that it costs little
            self._cut += len(self._tail) - half
            del self._tail[:-half]
