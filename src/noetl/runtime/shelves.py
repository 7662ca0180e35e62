"""The stored values of a pipeline that runs in the process that decides."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from noetl.engine.references import Values
from noetl.ports import Blob, Blobs
from noetl.runtime.ownership import Owners
from noetl.types import JSON


class OwnShelf:
    """Of the store, only what belongs to one execution can be read."""

    def __init__(self, blobs: Blobs, owners: Owners, execution_id: str) -> None:
        self.drafts = blobs.drafts
        self._blobs = blobs
        self._owners = owners
        self._execution_id = execution_id
        self._put: set[str] = set()  # no event names these yet

    async def put(self, data: bytes) -> None:
        self._put.add(await self._blobs.put(data))

    async def adopt(self, file: str) -> Blob:
        blob = await self._blobs.adopt(file)
        self._put.add(blob.key)
        return blob

    @asynccontextmanager
    async def file(self, key: str) -> AsyncIterator[str]:
        if key not in self._put:
            await self._owners.check(self._execution_id, key)
        async with self._blobs.file(key) as path:
            yield path

    async def supply(self, references: Sequence[JSON], values: Values) -> None:
        await self._owners.load(self._execution_id, references, values, own=self._put)

    async def close(self) -> None:
        """Nothing was taken."""
