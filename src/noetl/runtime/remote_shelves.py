"""The stored values of a pipeline that runs far from the server."""

from __future__ import annotations

import asyncio
import io
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from hashlib import file_digest, sha256
from typing import IO

import msgspec

from noetl.engine.references import Values, check_format
from noetl.errors import (
    BlobCorrupt,
    BlobFormat,
    BlobGone,
    BlobNotOwned,
    Refused,
    StoreError,
)
from noetl.ports import Blob, Blobs, Lease
from noetl.runtime import wire
from noetl.runtime.drafts import new_draft
from noetl.runtime.line import Line
from noetl.types import JSON

_MISSES: dict[str, type[StoreError]] = {
    each.kind: each for each in (BlobGone, BlobCorrupt, BlobNotOwned, BlobFormat)
}


class RemoteShelf:
    """By way of the server: it knows the store, and what belongs to whom.

    What the pipeline has stored stays here until its end: no event names it yet, and
    its next task is likely to read it. What the server gave for it is in ``receipts``.
    """

    def __init__(
        self, line: Line, lease: Lease, drafts: str, receipts: dict[str, str]
    ) -> None:
        self.drafts = drafts
        self._line = line
        self._under = (lease.owner, wire.LeaseKey(lease.command_id, lease.epoch))
        self._receipts = receipts
        self._copies: dict[str, str] = {}

    async def put(self, data: bytes) -> None:
        await self._send(sha256(data).hexdigest(), len(data), io.BytesIO(data))

    async def adopt(self, file: str) -> Blob:
        copy = await asyncio.to_thread(new_draft, self.drafts)
        await asyncio.to_thread(os.rename, file, copy)
        with await asyncio.to_thread(open, copy, "rb") as source:
            digest = await asyncio.to_thread(file_digest, source, "sha256")
            key, size = digest.hexdigest(), os.fstat(source.fileno()).st_size
            self._keep(key, copy)
            return await self._send(key, size, source)

    @asynccontextmanager
    async def file(self, key: str) -> AsyncIterator[str]:
        if key in self._copies:
            yield self._copies[key]
            return
        copy = await asyncio.to_thread(new_draft, self.drafts)
        try:
            with await asyncio.to_thread(open, copy, "x+b") as target:
                await self._fetch(key, target)
                await asyncio.to_thread(target.seek, 0)
                digest = await asyncio.to_thread(file_digest, target, "sha256")
            if digest.hexdigest() != key:
                raise BlobCorrupt(f"blob {key} came as something else")
            yield copy
        finally:
            with suppress(FileNotFoundError):
                os.unlink(copy)

    async def supply(self, references: Sequence[JSON], values: Values) -> None:
        for reference in references:
            key = reference["key"]
            try:
                text = await self._value(reference)
                values.put(key, msgspec.json.decode(text), reference["size"])
            except tuple(_MISSES.values()) as error:
                values.miss(key, error.kind, str(error))

    async def close(self) -> None:
        while self._copies:
            with suppress(FileNotFoundError):
                os.unlink(self._copies.popitem()[1])

    def _keep(self, key: str, copy: str) -> None:
        if key in self._copies:
            os.unlink(self._copies[key])
        self._copies[key] = copy

    async def _value(self, reference: JSON) -> bytes:
        key = reference["key"]
        if key in self._copies:
            check_format(reference)
            with await asyncio.to_thread(open, self._copies[key], "rb") as copy:
                return await asyncio.to_thread(copy.read)
        asked = wire.Value(*self._under, reference)
        try:
            return await self._line.ask("value", asked, bytes)
        except Refused as error:
            raise _store_error(error) from None

    async def _send(self, key: str, size: int, source: IO[bytes]) -> Blob:
        asked = wire.Upload(*self._under, key, size)
        try:
            kept = await self._line.send("results", asked, source, wire.Kept)
        except Refused as error:
            raise _store_error(error) from None
        if kept.receipt is not None:
            self._receipts[kept.key] = kept.receipt
        return kept

    async def _fetch(self, key: str, target: IO[bytes]) -> None:
        try:
            await self._line.fetch("result", wire.Result(*self._under, key), target)
        except Refused as error:
            raise _store_error(error) from None


class DirectShelf(RemoteShelf):
    """For a worker that reaches the store of the servers by itself.

    What it may read there, the server says.
    """

    def __init__(self, line: Line, lease: Lease, blobs: Blobs) -> None:
        super().__init__(line, lease, blobs.drafts, {})
        self._blobs = blobs
        self._put: set[str] = set()

    async def put(self, data: bytes) -> None:
        self._put.add(await self._blobs.put(data))

    async def adopt(self, file: str) -> Blob:
        blob = await self._blobs.adopt(file)
        self._put.add(blob.key)
        return blob

    @asynccontextmanager
    async def file(self, key: str) -> AsyncIterator[str]:
        if key not in self._put:
            asked = wire.Result(*self._under, key, only_look=True)
            try:
                await self._line.ask("result", asked, bytes)
            except Refused as error:
                raise _store_error(error) from None
        async with self._blobs.file(key) as path:
            yield path

    async def _value(self, reference: JSON) -> bytes:
        if reference["key"] not in self._put:
            return await super()._value(reference)
        check_format(reference)
        return await self._blobs.get(reference["key"])


def _store_error(error: Refused) -> StoreError:
    known = _MISSES.get(error.kind)
    return known(str(error)) if known else StoreError(str(error), error.kind)
