"""Output of a process: always read, kept up to a limit."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable

from noetl.ports.task_logs import Stream
from noetl.ports.tools import Output
from noetl.types import JSON

MAX_KEPT_BYTES = 1024 * 1024
_CHUNK = 65536
_PIPEFULS = 64


class Capture:
    """Reads a pipe to its end and keeps the head and the tail of the output.

    It never stops reading, so that a process that prints without end is not blocked,
    and keeps at most ``limit`` bytes. ``before`` is called each time that the loop has
    something to read, ``feed`` with all that was read.
    """

    def __init__(self, limit: int = MAX_KEPT_BYTES) -> None:
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        self._limit = limit
        self.ended = False
        self.before: Callable[[], None] | None = None
        self.feed: Callable[[bytes], None] | None = None
        self._head = bytearray()
        self._tail = bytearray()
        self._cut = 0
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._reader, self._ready)

    def give(self) -> int:
        """Return the end to write to; the caller must close it."""
        writer, self._writer = self._writer, -1
        return writer

    def pour(self, output: Output, stream: Stream, data: bytes) -> None:
        """Add what was read to a task's log; do not read while its store is behind."""
        output.write(stream, data)
        if output.is_full and self._reader >= 0 and not self.ended:
            self._loop.remove_reader(self._reader)
            output.when_stored(self._resume)

    def _resume(self) -> None:
        if self._reader >= 0 and not self.ended:
            self._loop.add_reader(self._reader, self._ready)

    def drain(self) -> None:
        """Read the content of the pipe; bounded, even if a process keeps writing."""
        for _ in range(_PIPEFULS):
            if not self._read():
                return

    @property
    def cut(self) -> int:
        """Number of dropped bytes."""
        return self._cut + max(0, len(self._tail) - self._limit // 2)

    def take(self) -> str:
        """Return the kept output as text, and clear it."""
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
        if self.feed is not None:
            self.feed(data)
        self._keep(data)
        return True

    def _keep(self, data: bytes) -> None:
        half = self._limit // 2
        room = half - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data
        if len(self._tail) > 4 * half:  # rarely, so that it costs little
            self._cut += len(self._tail) - half
            del self._tail[:-half]


_SHELL = 128  # a shell adds this to the number of a signal
_KILLED = (-signal.SIGKILL, _SHELL + signal.SIGKILL)


def describe_exit(status: int) -> str:
    """Return ``the process ended with exit code 3``, or the signal by name."""
    said = f"the process was ended by {signal_name(-status)}"
    if status >= 0:
        said = f"the process ended with exit code {status}"
    if status in _KILLED:
        said += " (the kernel sends SIGKILL when the machine has no memory left)"
    return said


def exit_details(status: int) -> dict[str, JSON]:
    """Return ``exit_code`` as a shell does, and the ``signal`` if there was one."""
    if status >= 0:
        return {"exit_code": status}
    return {"exit_code": _SHELL - status, "signal": signal_name(-status)}


def signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
