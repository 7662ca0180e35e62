"""Task logs in memory, for tests."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from noetl.ports.task_logs import ALL, LogChunk, LogFilter, LogSource, StoredChunk


class MemoryTaskLogs:
    def __init__(self) -> None:
        self._chunks: dict[str, list[LogChunk]] = {}
        self._stored: set[tuple[LogSource, int]] = set()

    async def append(self, chunks: Sequence[LogChunk]) -> None:
        for chunk in chunks:
            if (chunk.source, chunk.part) not in self._stored:
                self._stored.add((chunk.source, chunk.part))
                self._chunks.setdefault(chunk.source.execution_id, []).append(chunk)

    async def read(
        self,
        execution_id: str,
        *,
        start: int = 0,
        limit: int = 16,
        only: LogFilter = ALL,
    ) -> tuple[Sequence[StoredChunk], int]:
        found: list[StoredChunk] = []
        chunks = self._chunks.get(execution_id, [])
        position = start
        while position < len(chunks) and len(found) < limit:
            chunk = chunks[position]
            if only.selects(chunk.source):
                found.append(StoredChunk(position, position + 1, chunk))
            position += 1
        return found, position

    async def remove(self, execution_ids: Collection[str]) -> None:
        for name in execution_ids:
            self._chunks.pop(name, None)
        self._stored = {
            each for each in self._stored if each[0].execution_id not in execution_ids
        }
