"""Frames over two pipes: the only connection between a worker and user code."""

from __future__ import annotations

import asyncio
import os
import struct
from collections import deque
from collections.abc import Callable

MAGIC = b"noe1"
HEADER = struct.Struct("!4sI")
MAX_BYTES = 64 * 1024 * 1024
_SLACK = 64 * 1024  # bytes of a frame besides the largest result
_CHUNK = 65536  # a larger buffer costs a mapping of memory each time
_GRACE_S = 1.0  # a closed channel usually means that the process is about to end


class Channel:
    """Sends frames, and reports received frames and the end of the channel.

    User code can write to the other end. Bytes that are not a frame end the channel;
    they never raise an error here. ``on_end`` is called with the reason, and with the
    seconds to wait for the end of the process.
    """

    def __init__(
        self,
        on_frame: Callable[[bytes], None],
        on_end: Callable[[str, float], None],
    ) -> None:
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        self._theirs = [theirs_in, theirs_out]
        os.set_blocking(self._in, False)
        os.set_blocking(self._out, False)
        self._on_frame = on_frame
        self._on_end = on_end
        self._incoming = bytearray()
        self._outgoing: deque[memoryview] = deque()
        self._listening = True
        self._writing = False
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._in, self.read)

    def give(self) -> list[int]:
        """Return the ends to read from and to write to; the caller closes them."""
        theirs, self._theirs = self._theirs, []
        return theirs

    def send(self, body: bytes) -> None:
        self._outgoing.append(memoryview(HEADER.pack(MAGIC, len(body)) + body))
        if not self._writing:
            self._write()

    def read(self) -> None:
        """Read the received frames; also called when the process has ended."""
        while self._listening:
            try:
                data = os.read(self._in, _CHUNK)
            except BlockingIOError:
                return
            if not data:
                self._end("closed the channel to its worker", _GRACE_S)
                return
            if self._incoming:
                self._incoming += data
                del self._incoming[: self._split(self._incoming)]
            else:
                self._incoming += data[self._split(data) :]
            if len(data) < _CHUNK:
                return

    def close(self) -> None:
        self._stop()
        for file in (self._in, self._out, *self.give()):
            if file >= 0:
                os.close(file)
        self._in = self._out = -1

    def _split(self, data: bytes | bytearray) -> int:
        """Report the complete frames, and return the offset of their end."""
        begin = 0
        while self._listening and len(data) - begin >= HEADER.size:
            magic, size = HEADER.unpack_from(data, begin)
            if magic != MAGIC or size > MAX_BYTES + _SLACK:
                self._end("wrote into the channel to its worker", 0)
                break
            end = begin + HEADER.size + size
            if len(data) < end:
                break
            self._on_frame(bytes(data[begin + HEADER.size : end]))
            begin = end
        return begin

    def _write(self) -> None:
        while self._outgoing:
            frame = self._outgoing[0]
            try:
                sent = os.write(self._out, frame)
            except BlockingIOError:
                sent = 0
            except BrokenPipeError:  # the process is ending: its exit status tells why
                sent = len(frame)
            if sent < len(frame):
                self._outgoing[0] = frame[sent:]
                break
            self._outgoing.popleft()
        if bool(self._outgoing) != self._writing:
            self._writing = not self._writing
            if self._writing:
                self._loop.add_writer(self._out, self._write)
            else:
                self._loop.remove_writer(self._out)

    def _end(self, why: str, grace: float) -> None:
        self._stop()
        self._on_end(why, grace)

    def _stop(self) -> None:
        if self._listening:
            self._listening = False
            self._loop.remove_reader(self._in)
        if self._writing:
            self._writing = False
            self._loop.remove_writer(self._out)
