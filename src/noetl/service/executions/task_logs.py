"""Task logs as lines: pages, filters, and a live stream."""

from __future__ import annotations

import asyncio
import re
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

import msgspec

from noetl.engine.times import rfc3339
from noetl.ports.task_logs import (
    ALL,
    LEVELS,
    Level,
    LogChunk,
    LogFilter,
    LogText,
    StoredChunk,
    Stream,
    TaskLogs,
)
from noetl.service.errors import RequestRefused

MAX_LINES = 1_000
MAX_PAGE_BYTES = 4 * 1024 * 1024
POLL_S = 0.25
"""Seconds between two reads of a log that a stream follows."""

_CHUNKS = 16
_CURSOR = re.compile(r"(\d{1,18})-(\d{1,9})")
_RANGE = re.compile(r"(\d{1,9})-(\d{1,9})|-(\d{1,9})")


class LogLine(msgspec.Struct, frozen=True):
    """One line that a task printed, with the attempt that printed it."""

    time: str
    step: str
    task: str
    iteration: str | None
    attempt: int
    stream: Stream
    level: Level | None
    text: str
    task_run_id: str
    epoch: int


class LineFilter(msgspec.Struct, frozen=True):
    """Selects lines: of some attempts, of one stream, from a level on, of a time.

    Lines without a level are those of ``stdout`` and ``stderr``; ``level`` excludes
    them. ``since`` and ``until`` are seconds.
    """

    attempts: LogFilter = ALL
    stream: Stream | None = None
    level: Level | None = None
    since: float | None = None
    until: float | None = None

    def selects(self, text: LogText) -> bool:
        if self.stream not in (None, text.stream):
            return False
        if self.level is not None and (
            text.level is None or LEVELS.index(text.level) < LEVELS.index(self.level)
        ):
            return False
        return (self.since is None or text.time >= self.since) and (
            self.until is None or text.time < self.until
        )


class Position(msgspec.Struct, frozen=True):
    """A place in a log: the position of a chunk, and the lines of it that are read."""

    chunk: int = 0
    lines: int = 0

    @classmethod
    def read(cls, cursor: str | None) -> Position:
        """Parse a cursor. Raises ``RequestRefused``."""
        if cursor is None:
            return cls()
        found = _CURSOR.fullmatch(cursor)
        if found is None:
            message = f"'{cursor[:40]}' is not a cursor of a task log"
            raise RequestRefused("query.invalid", message, parameter="after")
        return cls(int(found[1]), int(found[2]))

    def __str__(self) -> str:
        return f"{self.chunk}-{self.lines}"


class LineRange(msgspec.Struct, frozen=True):
    """A range of the selected lines, counted from 0: from ``first`` to before ``end``,
    or the last ``tail``."""

    first: int = 0
    end: int = 0
    tail: int = 0

    @classmethod
    def read(cls, text: str) -> LineRange:
        """Parse ``100-199`` or ``-50``. Raises ``RequestRefused``."""
        found = _RANGE.fullmatch(text)
        if found is None:
            message = f"'{text[:40]}' is not a range of lines"
            hint = "write 0-99 for the first 100 lines, -50 for the last 50"
            raise RequestRefused("query.invalid", message, hint, parameter="lines")
        if found[3]:
            wanted = cls(tail=int(found[3]))
        else:
            wanted = cls(int(found[1]), int(found[2]) + 1)
        if not 1 <= wanted.length <= MAX_LINES:
            message = f"a range has 1 to {MAX_LINES:,} lines, found '{text}'"
            raise RequestRefused("query.invalid", message, parameter="lines")
        return wanted

    def __str__(self) -> str:
        return f"-{self.tail}" if self.tail else f"{self.first}-{self.end - 1}"

    @property
    def length(self) -> int:
        return self.tail or self.end - self.first


class LogPage(msgspec.Struct, frozen=True):
    """Lines with the cursor after each of them; ``position`` follows the last one."""

    lines: list[tuple[LogLine, str]]
    position: Position


class TaskLogQueries:
    def __init__(self, logs: TaskLogs) -> None:
        self._logs = logs

    async def page(
        self,
        execution_id: str,
        only: LineFilter,
        start: Position,
        limit: int = MAX_LINES,
    ) -> LogPage:
        """Return up to ``limit`` lines from a position on."""
        lines: list[tuple[LogLine, str]] = []
        size = 0
        position = start
        while len(lines) < limit and size < MAX_PAGE_BYTES:
            chunks, following = await self._logs.read(
                execution_id, start=position.chunk, limit=_CHUNKS, only=only.attempts
            )
            for stored in chunks:
                for line, at in _lines(stored, position, only):
                    lines.append((line, str(at)))
                    size += len(line.text)
                    if len(lines) >= limit or size >= MAX_PAGE_BYTES:
                        return LogPage(lines, at)
            if following == position.chunk:
                break
            position = Position(following)
        return LogPage(lines, position)

    async def lines(
        self, execution_id: str, only: LineFilter, wanted: LineRange
    ) -> LogPage:
        """Return a range of the selected lines; of long lines, those that fit a page.

        All lines before the range are read.
        """
        found: deque[tuple[LogLine, str]] = deque()
        size, number, position = 0, 0, Position()
        while True:
            page = await self.page(execution_id, only, position)
            if not page.lines and page.position == position:
                return LogPage([*found], position)
            position = page.position
            for line, at in page.lines:
                if not wanted.tail and number == wanted.end:
                    return LogPage([*found], Position.read(found[-1][1]))
                number += 1
                if number <= wanted.first:
                    continue
                found.append((line, at))
                size += len(line.text)
                if wanted.tail:
                    while len(found) > wanted.tail or size > MAX_PAGE_BYTES:
                        size -= len(found.popleft()[0].text)
                elif size >= MAX_PAGE_BYTES:
                    return LogPage([*found], Position.read(at))

    async def follow(
        self,
        execution_id: str,
        only: LineFilter,
        start: Position,
        is_over: Callable[[], Awaitable[bool]],
    ) -> AsyncIterator[LogPage]:
        """Yield pages until the execution ``is_over`` and all is read; an empty page is
        a sign of life."""
        while True:
            over = await is_over()  # before the read: nothing is stored after the end
            page = await self.page(execution_id, only, start)
            yield page
            if not page.lines and page.position == start:
                if over:
                    return
                await asyncio.sleep(POLL_S)
            start = page.position


def _lines(
    stored: StoredChunk, start: Position, only: LineFilter
) -> Iterator[tuple[LogLine, Position]]:
    """Yield the selected lines of a chunk after a position, with the next position."""
    skipped = start.lines if stored.position == start.chunk else 0
    number = 0
    for text in stored.chunk.texts:
        if number + text.lines <= skipped or not only.selects(text):
            number += text.lines
            continue
        for line in lines_of(stored.chunk, text):
            number += 1
            if number > skipped:
                yield line, Position(stored.position, number)


def lines_of(chunk: LogChunk, text: LogText) -> Iterator[LogLine]:
    source, time = chunk.source, rfc3339(text.time)
    for line in text.text.split("\n"):
        yield LogLine(
            time,
            source.step,
            source.task,
            source.iteration or None,
            source.attempt,
            text.stream,
            text.level,
            line,
            source.task_run_id,
            source.epoch,
        )
