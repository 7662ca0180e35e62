"""Output of one attempt of a task: lines that are masked, bounded and stored."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence

from noetl.engine.secrets.handles import Secrets
from noetl.errors import NoetlError
from noetl.ports.task_logs import (
    LEVELS,
    MAX_ATTEMPT_BYTES,
    MAX_CHUNK_BYTES,
    MAX_LINE_BYTES,
    Level,
    LogChunk,
    LogSource,
    LogText,
    Stream,
)

log = logging.getLogger("noetl.worker")

FLUSH_S = 0.4
"""Seconds after which lines are stored; twice that if they may be part of a secret."""

TAIL_BYTES = 4 * 1024**2
"""Bytes of an attempt that prints too much which are kept of its end."""

HEAD_BYTES = MAX_ATTEMPT_BYTES - TAIL_BYTES
MAX_BATCH_BYTES = 1024**2
MAX_QUEUED_BYTES = 8 * 1024**2
"""Unsent bytes of a worker above which the pipes of its tasks are not read."""

RECORD = b"\x1e"
"""Begins a line of a record of Python's ``logging``: then two digits and a space."""

_MERGED_S = 0.01  # output that is read within this time has one timestamp
_HELD = 8 * 1024  # bytes that are masked together with what follows them

Append = Callable[[Sequence[LogChunk]], Awaitable[None]]


class LogSender:
    """Stores the chunks of all tasks of a worker, one batch after another.

    What cannot be stored is dropped, with a warning: a task does not fail because its
    log is lost.
    """

    def __init__(self, append: Append) -> None:
        self._append = append
        self._queue: deque[tuple[LogChunk, int]] = deque()
        self._queued = 0
        self._sending: asyncio.Task[None] | None = None
        self._waiting: list[Callable[[], None]] = []

    def put(self, chunk: LogChunk, size: int) -> None:
        self._queue.append((chunk, size))
        self._queued += size
        if self._sending is None:
            self._sending = asyncio.create_task(self._send())

    @property
    def is_full(self) -> bool:
        return self._queued > MAX_QUEUED_BYTES

    def when_sent(self, act: Callable[[], None]) -> None:
        """Call ``act`` once, as soon as the sender is not full."""
        self._waiting.append(act)

    async def flush(self) -> None:
        """Wait until all chunks are stored, or dropped."""
        while self._sending is not None:
            await asyncio.wait({self._sending})

    async def _send(self) -> None:
        try:
            while self._queue:
                batch, size = self._next_batch()
                try:
                    await self._append(batch)
                except (NoetlError, OSError) as error:
                    _complain(batch, error)
                self._queued -= size
                if not self.is_full:
                    waiting, self._waiting = self._waiting, []
                    for act in waiting:
                        act()
        finally:
            self._sending = None

    def _next_batch(self) -> tuple[list[LogChunk], int]:
        batch, total = [], 0
        while self._queue and total < MAX_BATCH_BYTES:
            chunk, size = self._queue.popleft()
            batch.append(chunk)
            total += size
        return batch, total


def _complain(batch: Sequence[LogChunk], error: Exception) -> None:
    lines = sum(text.lines for chunk in batch for text in chunk.texts)
    source = batch[0].source
    about = {"execution_id": source.execution_id, "step": source.step}
    log.warning("%d lines of task logs were lost: %s", lines, error, extra=about)


class _Line:
    """The unfinished last line of a stream; ``dropped`` bytes of it are not kept."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.dropped = 0

    def __len__(self) -> int:
        return len(self.data) + self.dropped

    def add(self, data: bytes) -> None:
        room = max(0, 2 * MAX_LINE_BYTES - len(self.data))
        self.data += data[:room]
        self.dropped += max(0, len(data) - room)


class _Block:
    """Whole lines of one stream that were read at about the same time."""

    def __init__(
        self, time: float, stream: Stream, level: Level | None, data: bytes | bytearray
    ) -> None:
        self.time = time
        self.stream, self.level = stream, level
        self.data = bytearray(data)

    def takes(self, stream: Stream, level: Level | None) -> bool:
        """Return whether its lines are of this stream and level."""
        return self.stream == stream and self.level == level


class TaskOutput:
    """The log of one attempt. It costs nothing until something is printed.

    Only whole lines are masked and stored, so that no secret is hidden by the border of
    two reads. Of an attempt that prints more than ``MAX_ATTEMPT_BYTES`` the beginning
    and the end are kept.
    """

    def __init__(
        self, sender: LogSender, source: Callable[[], LogSource], secrets: Secrets
    ) -> None:
        self._sender = sender
        self._source = source
        self._secrets = secrets

    written = lines = 0
    _part = 0
    _size = 0  # of the blocks
    _kept = 0  # bytes that are kept so far
    _tail_size = 0
    _is_held = False
    _timer: asyncio.TimerHandle | None = None

    def _begin(self) -> None:
        self._blocks: list[_Block] = []
        self._lines: dict[Stream, _Line] = {}
        self._tail: deque[_Block] = deque()
        self._cut = [0, 0]  # lines and bytes between beginning and end

    def write(self, stream: Stream, data: bytes) -> None:
        """Add bytes of a stream, cut anywhere."""
        if not self.written:
            self._begin()
        if len(data) <= MAX_LINE_BYTES:
            self._write(stream, data)
            return
        for at in range(0, len(data), MAX_LINE_BYTES):
            self._write(stream, data[at : at + MAX_LINE_BYTES])

    def _write(self, stream: Stream, data: bytes) -> None:
        self.written += len(data)
        rest = self._lines.get(stream)
        if rest is not None:
            end = data.find(b"\n")
            if end < 0:
                rest.add(data)
                return
            del self._lines[stream]
            if len(rest) + end > MAX_LINE_BYTES:
                rest.add(data[:end])
                self._add_long(stream, rest)
                data = data[end + 1 :]
            else:
                data = bytes(rest.data) + data
        end = data.rfind(b"\n") + 1
        if end < len(data):
            line = self._lines[stream] = _Line()
            line.add(data[end:])
            data = data[:end]
        if data:
            self._add(stream, None, data)

    def log(self, level: Level, text: str) -> None:
        """Add a message of one or more lines."""
        if not self.written:
            self._begin()
        lines = self._secrets.redact_text(text).split("\n")
        cut = b"\n".join(
            line.encode(errors="replace")[:MAX_LINE_BYTES] for line in lines
        )
        self.written += len(cut) + 1
        self._add("log", level, cut + b"\n")

    @property
    def is_full(self) -> bool:
        """Return whether the store is behind: the writer should pause."""
        return self._sender.is_full

    def when_stored(self, act: Callable[[], None]) -> None:
        """Call ``act`` once, as soon as the output is not full."""
        self._sender.when_sent(act)

    async def close(self) -> dict[str, int] | None:
        """Store the rest; return what was printed, None for nothing."""
        if not self.written:
            return None
        self.leave()
        await self._sender.flush()
        return {"lines": self.lines, "bytes": self.written}

    def leave(self) -> None:
        """Pass on the rest without waiting until it is stored."""
        for stream, line in self._lines.items():
            if len(line) > MAX_LINE_BYTES:
                self._add_long(stream, line)
            else:
                self._add(stream, None, bytes(line.data) + b"\n")
        self._lines.clear()
        self._flush(is_last=True)
        if self._tail:
            self._send_tail()

    def _add(self, stream: Stream, level: Level | None, data: bytes) -> None:
        """Add whole lines, with their line breaks."""
        now = time.time()
        self.lines += data.count(b"\n")
        if self._kept + len(data) > HEAD_BYTES:
            self._add_tail(_Block(now, stream, level, data))
            return
        self._kept += len(data)
        self._size += len(data)
        last = self._blocks[-1] if self._blocks else None
        is_near = last is not None and now - last.time < _MERGED_S
        is_near = is_near or self._secrets.hides
        if last is not None and last.takes(stream, level) and is_near:
            last.data += data
        else:
            self._blocks.append(_Block(now, stream, level, data))
        if self._size >= MAX_CHUNK_BYTES:
            self._flush(holds=True)
        elif self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(FLUSH_S, self._tick)

    def _add_long(self, stream: Stream, line: _Line) -> None:
        """Add a line that is too long: masked first, then cut."""
        text = self._secrets.redact_text(line.data.decode(errors="replace"))
        kept = text.encode()[:MAX_LINE_BYTES].decode(errors="ignore").encode()
        cut = len(line) - min(len(line), len(kept))
        self._add(stream, None, kept + f"[… {cut} bytes cut …]\n".encode())

    def _add_tail(self, block: _Block) -> None:
        self._tail.append(block)
        self._tail_size += len(block.data)
        while self._tail_size > TAIL_BYTES and len(self._tail) > 1:
            dropped = self._tail.popleft()
            self._tail_size -= len(dropped.data)
            self._cut[0] += dropped.data.count(b"\n")
            self._cut[1] += len(dropped.data)

    def _tick(self) -> None:
        self._timer = None
        # Output that goes on may be within a secret of several lines.
        self._flush(holds=not self._is_held)
        if self._blocks:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(FLUSH_S, self._tick)

    def _flush(self, *, holds: bool = False, is_last: bool = False) -> None:
        """Send the collected lines. With ``holds``, the end of the last block waits for
        what follows it, if there are secrets."""
        if self._timer is not None and (is_last or not holds):
            self._timer.cancel()
            self._timer = None
        blocks, self._blocks = self._blocks, []
        size, self._size = self._size, 0
        self._is_held = False
        texts = [text for block in blocks[:-1] for text in self._texts(block)]
        if blocks:
            last = blocks[-1]
            if holds and self._secrets.hides and RECORD not in last.data:
                texts += self._all_but_end(last)
            else:
                texts += self._texts(last)
        if texts:
            self._put(texts, size)

    def _all_but_end(self, block: _Block) -> list[LogText]:
        """Return the lines of a block but the last ones, which stay collected."""
        data = block.data
        end = data.rfind(b"\n", 0, max(0, len(data) - _HELD)) + 1
        while end and self._is_within_secret(data, end):
            end = data.rfind(b"\n", 0, max(0, end - _HELD)) + 1
        if not end and len(data) > 4 * MAX_CHUNK_BYTES:
            end = len(data)
        held = data[end:]
        if held:
            self._blocks = [_Block(block.time, block.stream, block.level, held)]
            self._size = len(held)
            self._is_held = True
        del data[end:]
        return list(self._texts(block)) if data else []

    def _is_within_secret(self, data: bytearray, at: int) -> bool:
        """Return whether a secret extends over this position."""
        left = data[max(0, at - _HELD) : at].decode(errors="replace")
        right = data[at : at + _HELD].decode(errors="replace")
        mask = self._secrets.redact_lines
        return mask(left + right) != mask(left) + mask(right)

    def _texts(self, block: _Block) -> Iterator[LogText]:
        for level, data in _records(block):
            text = self._secrets.redact_lines(data.decode(errors="replace"))
            stream = block.stream if level is block.level else "log"
            yield LogText(block.time, stream, level, text.removesuffix("\n"))

    def _put(self, texts: list[LogText], size: int) -> None:
        self._part += 1
        chunk = LogChunk(self._source(), self._part, texts)
        self._sender.put(chunk, size)

    def _send_tail(self) -> None:
        lines, size = self._cut
        if lines:
            cut = f"[… {lines:,} lines ({size:,} bytes) cut …]"
            self._put([LogText(self._tail[0].time, "log", "warning", cut)], len(cut))
        texts: list[LogText] = []
        total = 0
        for block in _merged(self._tail):
            texts += self._texts(block)
            total += len(block.data)
            if total >= MAX_CHUNK_BYTES:
                self._put(texts, total)
                texts, total = [], 0
        if texts:
            self._put(texts, total)
        self._tail.clear()


def _merged(blocks: Iterable[_Block]) -> list[_Block]:
    """Return the blocks; neighbours of one stream are one, and masked together."""
    found: list[_Block] = []
    for block in blocks:
        last = found[-1] if found else None
        is_full = last is not None and len(last.data) >= MAX_CHUNK_BYTES
        if last is not None and last.takes(block.stream, block.level) and not is_full:
            last.data += block.data
        else:
            found.append(block)
    return found


def _records(block: _Block) -> Iterator[tuple[Level | None, bytes | bytearray]]:
    """Yield the lines of a block by their level: records are marked lines of stderr."""
    if block.stream != "stderr" or RECORD not in block.data:
        yield block.level, block.data
        return
    level: Level | None = None
    lines = bytearray()
    for line in block.data.removesuffix(b"\n").split(b"\n"):
        found, text = _record(line)
        if found != level and lines:
            yield level, lines
            lines = bytearray()
        level = found
        lines += text + b"\n"
    yield level, lines


def _record(line: bytes | bytearray) -> tuple[Level | None, bytes | bytearray]:
    if line[:1] != RECORD or not line[1:3].isdigit() or line[3:4] != b" ":
        return None, line
    number = int(line[1:3])
    return LEVELS[max(0, min(number // 10, len(LEVELS)) - 1)], line[4:]
