"""Blobs in memory."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from noetl.adapters.blobs.files import check_bytes, check_key, gone, key_of, remove_old
from noetl.ports import Blob


class MemoryBlobs:
    place = "memory"

    def __init__(self, drafts: str | None = None) -> None:
        self.drafts = drafts or tempfile.gettempdir()
        self._blobs: dict[str, tuple[bytes, float]] = {}

    async def put(self, data: bytes) -> str:
        key = key_of(data)
        self._blobs[key] = (bytes(data), time.time())
        return key

    async def adopt(self, file: str) -> Blob:
        data = await asyncio.to_thread(Path(file).read_bytes)
        key = await self.put(data)
        await asyncio.to_thread(os.unlink, file)
        return Blob(key, len(data), self._blobs[key][1])

    async def get(self, key: str) -> bytes:
        found = self._blobs.get(check_key(key))
        if found is None:
            raise gone(key, self.place)
        return check_bytes(key, found[0])

    @asynccontextmanager
    async def file(self, key: str) -> AsyncIterator[str]:
        data = await self.get(key)
        with tempfile.NamedTemporaryFile() as copy:
            copy.write(data)
            copy.flush()
            yield copy.name

    async def each(self) -> AsyncIterator[Blob]:
        for key, (data, at) in list(self._blobs.items()):
            yield Blob(key, len(data), at)

    async def remove(self, key: str, before: float) -> bool:
        found = self._blobs.get(check_key(key))
        if found is None or found[1] >= before:
            return False
        del self._blobs[key]
        return True

    async def sweep(self, before: float, *, dry_run: bool = False) -> Sequence[Blob]:
        return remove_old(self.drafts, before, dry_run)

    async def others(self) -> int:
        return 0
