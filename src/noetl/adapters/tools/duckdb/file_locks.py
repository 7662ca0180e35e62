"""Readers-writer locks of database files."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager

import msgspec

Files = Mapping[str, bool]
"""Paths of files, with True for a writer."""

_WRITER = -1


class _Waiter(msgspec.Struct, eq=False):
    files: Files
    admitted: asyncio.Future[None]


class Gates:
    """Locks within this process; DuckDB's own lock excludes other processes."""

    def __init__(self) -> None:
        self._inside: dict[str, int] = {}  # number of readers, or _WRITER
        self._waiting: list[_Waiter] = []

    @asynccontextmanager
    async def entered(self, files: Files) -> AsyncIterator[None]:
        """Lock all the files together, which prevents deadlocks."""
        waiter = _Waiter(files, asyncio.get_running_loop().create_future())
        self._waiting.append(waiter)
        self._admit()
        try:
            await waiter.admitted
            yield
        finally:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
            else:
                self._leave(files)
            self._admit()

    def _admit(self) -> None:
        claimed: set[str] = set()  # by earlier waiters, so that none starves
        for waiter in list(self._waiting):
            if claimed.isdisjoint(waiter.files) and self._is_free(waiter.files.items()):
                self._waiting.remove(waiter)
                self._enter(waiter.files)
                if not waiter.admitted.done():
                    waiter.admitted.set_result(None)
            else:
                claimed.update(waiter.files)

    def _is_free(self, files: Iterable[tuple[str, bool]]) -> bool:
        return all(
            self._inside.get(file, 0) == 0 if writes else self._inside.get(file, 0) >= 0
            for file, writes in files
        )

    def _enter(self, files: Files) -> None:
        for file, writes in files.items():
            self._inside[file] = _WRITER if writes else self._inside.get(file, 0) + 1

    def _leave(self, files: Files) -> None:
        for file, writes in files.items():
            self._inside[file] = 0 if writes else self._inside[file] - 1
            if not self._inside[file]:
                del self._inside[file]
