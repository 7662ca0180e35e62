"""Task logs as files of the home: one file of JSON lines per execution."""

from __future__ import annotations

import asyncio
import errno
import os
import re
from collections import OrderedDict
from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

import msgspec

from noetl.errors import StoreError
from noetl.ports.task_logs import ALL, LogChunk, LogFilter, LogSource, StoredChunk

MAX_OPEN = 64
"""Files that are kept open for writing."""

_NAME = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]{0,127}")
_LAST = 1024 * 1024  # bytes at the end of a file that are searched for stored parts
_READ = 4 * 1024 * 1024  # bytes that one call of read searches, besides one chunk
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(LogChunk).decode
_FLAGS = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW


class _File:
    """An open file, and the last part of each attempt that is written last."""

    def __init__(self, path: Path) -> None:
        self.descriptor = os.open(path, _FLAGS, 0o600)
        self.parts: OrderedDict[LogSource, int] = OrderedDict()
        self._mend()

    def _mend(self) -> None:
        """Learn the last parts, and end a line that a killed process left open."""
        size = os.fstat(self.descriptor).st_size
        begin = max(0, size - _LAST)
        tail = os.pread(self.descriptor, size - begin, begin)
        for line in tail.split(b"\n"):
            chunk = _chunk_of(line)
            if chunk is not None:
                self.note(chunk)
        if tail and not tail.endswith(b"\n"):
            os.write(self.descriptor, b"\n")

    def note(self, chunk: LogChunk) -> None:
        self.parts[chunk.source] = chunk.part
        if len(self.parts) > 4 * MAX_OPEN:
            self.parts.popitem(last=False)

    def write(self, data: bytes) -> None:
        view = memoryview(data)
        while view:
            view = view[os.write(self.descriptor, view) :]

    def close(self) -> None:
        os.close(self.descriptor)


class TaskLogFiles:
    """Files that one process at a time writes, and any number of processes read.

    A write is in the kernel when it returns: it survives the end of the process.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: OrderedDict[str, _File] = OrderedDict()

    async def append(self, chunks: Sequence[LogChunk]) -> None:
        for chunk in chunks:
            file = self._open(chunk.source.execution_id)
            if file.parts.get(chunk.source, 0) < chunk.part:
                try:
                    file.write(_encode(chunk) + b"\n")
                except OSError as error:
                    raise _unwritable(self._folder, error) from error
                file.note(chunk)

    async def read(
        self,
        execution_id: str,
        *,
        start: int = 0,
        limit: int = 16,
        only: LogFilter = ALL,
    ) -> tuple[Sequence[StoredChunk], int]:
        return await asyncio.to_thread(self._read, execution_id, start, limit, only)

    async def remove(self, execution_ids: Collection[str]) -> None:
        for name in execution_ids:
            if name in self._files:
                self._files.pop(name).close()
            with suppress(FileNotFoundError):
                os.unlink(self._path(name))

    def close(self) -> None:
        while self._files:
            self._files.popitem()[1].close()

    def _path(self, execution_id: str) -> Path:
        if _NAME.fullmatch(execution_id) is None:
            raise StoreError(f"'{execution_id:.80}' is not the id of an execution")
        return self._folder / f"{execution_id}.jsonl"

    def _open(self, execution_id: str) -> _File:
        file = self._files.get(execution_id)
        if file is None:
            path = self._path(execution_id)
            try:
                self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                file = _File(path)
            except OSError as error:
                raise _unwritable(self._folder, error) from error
            self._files[execution_id] = file
            if len(self._files) > MAX_OPEN:
                self._files.popitem(last=False)[1].close()
        else:
            self._files.move_to_end(execution_id)
        return file

    def _read(
        self, execution_id: str, start: int, limit: int, only: LogFilter
    ) -> tuple[Sequence[StoredChunk], int]:
        found: list[StoredChunk] = []
        position = start
        try:
            file = self._path(execution_id).open("rb")
        except FileNotFoundError:
            return found, start
        with file:
            file.seek(start)
            for line in _whole_lines(file):
                begin, position = position, position + len(line)
                chunk = _chunk_of(line)
                if chunk is not None and only.selects(chunk.source):
                    found.append(StoredChunk(begin, position, chunk))
                if len(found) >= limit or position - start > _READ:
                    break
        return found, position


def _whole_lines(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines that end with a line break: the writer may be within one."""
    while (line := file.readline()).endswith(b"\n"):
        yield line


def _chunk_of(line: bytes) -> LogChunk | None:
    """Decode a line; None for one that a killed process left unfinished."""
    try:
        return _decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None


def _unwritable(folder: Path, error: OSError) -> StoreError:
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    message = f"{folder}: {error.strerror}"
    return StoreError(message, "store.full" if full else "store.io")
