"""Reads of the same row at the same time, in one statement."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
T = TypeVar("T")


class SharedReads(Generic[K, T]):
    """Lets callers who ask while a read of their key is running share the next one.

    No caller gets what was read before it asked. A read that fails, fails for all who
    share it.
    """

    def __init__(self, read: Callable[[K], Awaitable[T]]) -> None:
        self._read = read
        self._waiting: dict[K, list[asyncio.Future[T]]] = {}
        self._next: set[asyncio.Task[None]] = set()

    async def get(self, key: K) -> T:
        waiting = self._waiting.get(key)
        if waiting is None:
            self._waiting[key] = []
            try:
                return await self._read(key)
            finally:
                self._begin_next(key)
        future: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        waiting.append(future)
        return await future

    def _begin_next(self, key: K) -> None:
        """Read for those who have asked since, apart from the caller who has its
        answer."""
        sharing = self._waiting.pop(key)
        if sharing:
            self._waiting[key] = []
            task = asyncio.create_task(self._read_for(key, sharing))
            self._next.add(task)
            task.add_done_callback(self._next.discard)

    async def _read_for(self, key: K, sharing: list[asyncio.Future[T]]) -> None:
        try:
            found = await self._read(key)
        except Exception as error:
            for future in sharing:
                if not future.done():
                    future.set_exception(error)
        except asyncio.CancelledError:
            for future in sharing:
                future.cancel()
            raise
        else:
            for future in sharing:
                if not future.done():
                    future.set_result(found)
        finally:
            self._begin_next(key)
