"""Read-only connections: readers do not wait for the writer, nor it for them."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TypeVar

from noetl.adapters.stores.sqlite.connections import connect_reader
from noetl.adapters.stores.sqlite.faults import translated

T = TypeVar("T")
THREADS = 2


class Readers:
    """Opened when first needed, then kept."""

    def __init__(self, path: Path, *, threaded: bool) -> None:
        self._path = path
        self._free: SimpleQueue[sqlite3.Connection] = SimpleQueue()
        self._pool = ThreadPoolExecutor(THREADS, "noetl-reader") if threaded else None

    async def run(self, work: Callable[[sqlite3.Connection], T]) -> T:
        if self._pool is None:
            return self.run_now(work)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._pool, self.run_now, work)

    def run_now(self, work: Callable[[sqlite3.Connection], T]) -> T:
        with translated(self._path):
            try:
                db = self._free.get_nowait()
            except Empty:
                db = connect_reader(self._path)
            try:
                return work(db)
            finally:
                self._free.put(db)

    async def close(self) -> None:
        if self._pool is not None:
            await asyncio.to_thread(self._pool.shutdown)
        self.close_now()

    def close_now(self) -> None:
        while not self._free.empty():
            self._free.get_nowait().close()
