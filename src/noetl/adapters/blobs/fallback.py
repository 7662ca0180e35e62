"""Several blob stores as one: writes go to the first, reads look in all."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager

from noetl.errors import BlobGone
from noetl.ports import Blobs


class SeveralBlobs:
    """Keys are hashes, so every store that has a key has the same bytes.

    ``others`` is called when the first store lacks a key. Its stores are only read;
    listing and removal affect the first store alone.
    """

    def __init__(self, first: Blobs, others: Callable[[], Sequence[Blobs]]) -> None:
        self.place = first.place
        self.drafts = first.drafts
        self.put = first.put
        self.adopt = first.adopt
        self.each = first.each
        self.remove = first.remove
        self.sweep = first.sweep
        self.others = first.others
        self._first = first
        self._others = others

    async def get(self, key: str) -> bytes:
        try:
            return await self._first.get(key)
        except BlobGone as missing:
            for other in self._others():
                try:
                    return await other.get(key)
                except BlobGone:
                    continue
            raise missing

    @asynccontextmanager
    async def file(self, key: str) -> AsyncIterator[str]:
        async with AsyncExitStack() as stack:
            yield await self._find(key, stack)

    async def _find(self, key: str, stack: AsyncExitStack) -> str:
        try:
            return await stack.enter_async_context(self._first.file(key))
        except BlobGone as missing:
            for other in self._others():
                try:
                    return await stack.enter_async_context(other.file(key))
                except BlobGone:
                    continue
            raise missing
