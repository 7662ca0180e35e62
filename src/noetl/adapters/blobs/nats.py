"""Blobs as objects of a NATS bucket."""

from __future__ import annotations

import asyncio
import base64
import io
import os
import re
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from typing import IO

import nats.errors
import nats.js.errors
from nats.aio.client import Client
from nats.js import JetStreamContext
from nats.js.api import ObjectInfo, ObjectMeta, ObjectStoreConfig
from nats.js.object_store import ObjectStore

from noetl.adapters.blobs.drafts import new_draft, remove_old
from noetl.adapters.blobs.keys import (
    check_bytes,
    check_key,
    gone,
    is_key,
    key_of,
    key_of_file,
)
from noetl.errors import BlobCorrupt, ConfigError, StoreError
from noetl.ports import Blob

BUCKET = "noetl-results"
OURS = "results of NoETL"
"""What a bucket says of itself: into one that says something else nothing is put."""

SECONDS = 10.0
SLOWEST = 1 << 20
"""Bytes in a second: who is slower than that is taken for lost."""
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_STREAM = "OBJ_"


class NatsBlobs:
    """Each call is a connection of its own: there is nothing to close.

    Puts go to its own bucket. What is looked for may be in any of ours: which one a
    value went to is not part of its name.
    """

    def __init__(self, address: str, bucket: str, drafts: str) -> None:
        if _NAME.fullmatch(bucket) is None:
            message = (
                f"'{bucket[:80]}' is no name for a bucket of NATS: it has up to 64"
            )
            raise ConfigError(f"{message} letters, digits, '_' and '-'")
        self.bucket = bucket
        self.place = f"NATS, bucket {bucket}"
        self.drafts = drafts
        self._address = address

    async def check(self) -> None:
        """Make the bucket. Raises ``StoreError`` if it is somebody else's."""
        async with self._connected() as stream:
            await self._own(stream)

    async def put(self, data: bytes) -> str:
        key = key_of(data)
        await self._put(key, len(data), io.BytesIO(data))
        return key

    async def adopt(self, file: str) -> Blob:
        with await asyncio.to_thread(open, file, "rb") as draft:
            key = await asyncio.to_thread(key_of_file, draft)
            size = os.fstat(draft.fileno()).st_size
            draft.seek(0)
            await self._put(key, size, draft)
        await asyncio.to_thread(os.unlink, file)
        return Blob(key, size, time.time())

    async def get(self, key: str) -> bytes:
        data = io.BytesIO()
        await self._read(check_key(key), data)
        return check_bytes(key, data.getvalue())

    @asynccontextmanager
    async def file(self, key: str) -> AsyncIterator[str]:
        name = await asyncio.to_thread(new_draft, self.drafts)
        try:
            with await asyncio.to_thread(open, name, "x+b") as copy:
                await self._read(check_key(key), copy)
                copy.seek(0)
                if await asyncio.to_thread(key_of_file, copy) != key:
                    raise BlobCorrupt(f"blob {key} holds something else")
            yield name
        finally:
            with suppress(FileNotFoundError):
                os.unlink(name)

    async def each(self) -> AsyncIterator[Blob]:
        async with self._connected() as stream:
            own = await self._own(stream)
            try:
                found = await own.list(ignore_deletes=True)
            except nats.js.errors.NotFoundError:
                found = []
        for info in found:
            if is_key(info.name):
                yield Blob(info.name, info.size or 0, _moment(info))

    async def remove(self, key: str, before: float) -> bool:
        async with self._connected() as stream:
            own = await self._own(stream)
            try:
                info = await own.get_info(check_key(key))
            except nats.js.errors.NotFoundError:
                return False
            if _moment(info) >= before:
                return False
            await own.delete(key)
            return True

    async def sweep(self, before: float, *, dry_run: bool = False) -> Sequence[Blob]:
        return await asyncio.to_thread(remove_old, self.drafts, before, dry_run)

    async def others(self) -> int:
        message = f"{self.place}: nobody knows who else keeps results there"
        raise StoreError(message, "store.unlisted")

    async def _put(self, key: str, size: int, source: IO[bytes]) -> None:
        async with self._connected() as stream:
            own = await self._own(stream)
            about = ObjectMeta(name=key, description=str(time.time()))
            with suppress(nats.js.errors.NotFoundError):
                info = await own.get_info(key)
                if info.digest == _digest(key) and info.size == size:
                    # Not a second time: whoever reads it would lose what he reads.
                    await own.update_meta(key, about)
                    return
            await own.put(key, source, about)  # type: ignore[arg-type]

    async def _read(self, key: str, target: IO[bytes]) -> None:
        async with self._connected() as stream:
            for bucket in await self._buckets(stream):
                found = await stream.object_store(bucket)
                try:
                    info = await found.get_info(key)
                except nats.js.errors.NotFoundError:
                    continue
                if info.size:
                    # Of an object that somebody puts anew meanwhile, nothing comes.
                    async with asyncio.timeout(SECONDS + info.size / SLOWEST):
                        await found.get(key, writeinto=target)  # type: ignore[arg-type]
                return
        raise gone(key, self.place)

    async def _own(self, stream: JetStreamContext) -> ObjectStore:
        try:
            info = await stream.stream_info(_STREAM + self.bucket)
        except nats.js.errors.NotFoundError:
            settings = ObjectStoreConfig(bucket=self.bucket, description=OURS)
            return await stream.create_object_store(self.bucket, settings)
        if info.config.description != OURS:
            message = f"the bucket {self.bucket} of NATS is somebody else's"
            raise StoreError(message, "store.denied")
        return await stream.object_store(self.bucket)

    async def _buckets(self, stream: JetStreamContext) -> list[str]:
        """Ours, its own first."""
        found: set[str] = set()
        offset = 0
        while page := await stream.streams_info(offset):
            offset += len(page)
            for each in page:
                name = each.config.name or ""
                if name.startswith(_STREAM) and each.config.description == OURS:
                    found.add(name.removeprefix(_STREAM))
        return sorted(found, key=lambda name: (name != self.bucket, name))

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[JetStreamContext]:
        """NATS' troubles as ours, without its words: they may quote the address."""
        client = Client()
        try:
            await client.connect(
                self._address,
                name="noetl-results",
                allow_reconnect=False,
                max_reconnect_attempts=1,
                reconnect_time_wait=0,
                connect_timeout=2,
                error_cb=_ignore,
            )
            yield client.jetstream(timeout=SECONDS)
        except nats.js.errors.DigestMismatchError:
            raise BlobCorrupt(f"{self.place}: an object holds something else") from None
        except (nats.errors.Error, OSError, TimeoutError) as error:
            why = type(error).__name__
            message = f"{self.place} does not answer ({why})"
            raise StoreError(message, "store.unreachable") from None
        finally:
            with suppress(nats.errors.Error, OSError):
                await client.close()


def _digest(key: str) -> str:
    return "SHA-256=" + base64.urlsafe_b64encode(bytes.fromhex(key)).decode()


def _moment(info: ObjectInfo) -> float:
    """When it was last put: whoever puts it again says so in its description."""
    try:
        return float(info.description or "")
    except ValueError:
        return datetime.fromisoformat(info.mtime or "1970-01-01T00:00Z").timestamp()


async def _ignore(error: Exception) -> None:
    """Whoever waits for an answer is told."""
