"""Task logs: what tasks print and log, kept beside the event log of their execution."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Annotated, Literal, Protocol

import msgspec

MAX_LINE_BYTES = 64 * 1024
"""Longest line that is kept whole; the rest of a longer one is cut."""
MAX_ATTEMPT_BYTES = 64 * 1024**2
"""Bytes that are kept of one attempt of a task: its beginning and its end."""
MAX_CHUNK_BYTES = 256 * 1024
"""Bytes after which what a task has printed is stored."""

Stream = Literal["stdout", "stderr", "log"]
Level = Literal["debug", "info", "warning", "error", "critical"]
LEVELS: tuple[Level, ...] = ("debug", "info", "warning", "error", "critical")

Seconds = Annotated[float, msgspec.Meta(ge=0, le=253_402_300_799)]
"""Seconds since 1970, up to the year 9999."""


class LogSource(msgspec.Struct, frozen=True):
    """The attempt of a task that printed something.

    ``command_id`` is the step run, with the path of the iteration: ``<run>/<i>/<j>``.
    ``epoch`` is the epoch of the lease: an attempt that is repeated after the loss of
    its worker has the same number and another epoch.
    """

    execution_id: str
    step: str
    command_id: str
    task: str
    task_run_id: str
    attempt: int
    epoch: int

    @property
    def iteration(self) -> str:
        """Return the path of the iteration, ``3`` or ``3/0``; empty outside a loop."""
        return self.command_id.partition("/")[2]


class LogText(msgspec.Struct, frozen=True, array_like=True):
    """Lines that were read together from one stream; ``time`` is in seconds.

    ``text`` holds at least one line, without the last line break.
    """

    time: Seconds
    stream: Stream
    level: Level | None
    text: str

    @property
    def lines(self) -> int:
        return self.text.count("\n") + 1


class LogChunk(msgspec.Struct, frozen=True):
    """A part of the log of one attempt. ``part`` counts from 1 within the attempt; a
    part that is appended again is stored once."""

    source: LogSource
    part: int
    texts: Sequence[LogText]


class StoredChunk(msgspec.Struct, frozen=True):
    """A chunk at its position in the log of the execution; ``following`` is where the
    next chunk is searched."""

    position: int
    following: int
    chunk: LogChunk


class LogFilter(msgspec.Struct, frozen=True):
    """Selects attempts; None selects all. ``iteration`` is ``3``, or ``3/0`` in nested
    loops; ``3`` includes all inner iterations."""

    step: str | None = None
    task: str | None = None
    iteration: str | None = None
    attempt: int | None = None
    task_run_id: str | None = None

    def selects(self, source: LogSource) -> bool:
        path = source.iteration
        return (
            self.step in (None, source.step)
            and self.task in (None, source.task)
            and self.attempt in (None, source.attempt)
            and self.task_run_id in (None, source.task_run_id)
            and (
                self.iteration is None
                or path == self.iteration
                or path.startswith(f"{self.iteration}/")
            )
        )


ALL = LogFilter()


class TaskLogs(Protocol):
    """The task logs of many executions. A stored chunk survives the end of the process
    that appended it; it is never changed."""

    async def append(self, chunks: Sequence[LogChunk]) -> None:
        """Store chunks of any executions. A chunk with a source and part that are
        stored already is ignored. Raises ``StoreError``."""
        ...

    async def read(
        self,
        execution_id: str,
        *,
        start: int = 0,
        limit: int = 16,
        only: LogFilter = ALL,
    ) -> tuple[Sequence[StoredChunk], int]:
        """Return at most ``limit`` chunks from position ``start`` on, and the position
        at which to continue: the same as ``start`` if nothing follows yet.

        Fewer than ``limit`` chunks, even none, do not mean the end of the log.
        """
        ...

    async def remove(self, execution_ids: Collection[str]) -> None:
        """Remove the logs of executions that are removed."""
        ...
