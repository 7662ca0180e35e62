"""Blobs as objects of a NATS bucket."""

from __future__ import annotations

import asyncio
import base64
import io
import os
import re
import ssl
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from datetime import datetime
from typing import IO

import nats.errors
import nats.js.errors
from nats.js import JetStreamContext
from nats.js.api import ObjectInfo, ObjectMeta, ObjectStoreConfig
from nats.js.object_store import ObjectStore

from noetl.adapters.blobs.files import (
    check_bytes,
    check_key,
    gone,
    is_key,
    key_of,
    key_of_file,
    new_draft,
    remove_old,
)
from noetl.adapters.nats.connection import CarefulClient, is_denied
from noetl.adapters.nats.permissions import OBJECTS_STREAM as _STREAM
from noetl.errors import BlobCorrupt, ConfigError, StoreError
from noetl.ports import Blob

OURS = "results of NoETL"
"""Description of our buckets; a bucket with another description is not written."""

SECONDS = 10.0
MIN_BYTES_PER_S = 1 << 20
"""A read that is slower than this is ended with a timeout."""
_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")


class NatsBlobs:
    """Opens a connection for each call, so there is nothing to close.

    Writes go to ``bucket``. Reads look in all buckets of NoETL, since the key of a
    value does not name its bucket.
    """

    def __init__(
        self,
        address: str,
        bucket: str,
        drafts: str,
        tls: ssl.SSLContext | None = None,
        replicas: int = 1,
    ) -> None:
        if _NAME.fullmatch(bucket) is None:
            message = (
                f"'{bucket[:80]}' is not a valid name of a NATS bucket: use up to 64"
            )
            raise ConfigError(f"{message} letters, digits, '_' and '-'")
        self.bucket = bucket
        self.place = f"NATS, bucket {bucket}"
        self.drafts = drafts
        self._address = address
        self._tls = tls
        self._replicas = replicas

    async def check(self) -> None:
        """Create the bucket. Raises ``StoreError`` if another program owns it."""
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
                    raise BlobCorrupt(f"blob {key} is damaged: its content has changed")
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
        message = f"{self.place}: other users of this bucket cannot be listed"
        raise StoreError(message, "store.unlisted")

    async def _put(self, key: str, size: int, source: IO[bytes]) -> None:
        async with self._connected() as stream:
            own = await self._own(stream)
            about = ObjectMeta(name=key, description=str(time.time()))
            with suppress(nats.js.errors.NotFoundError):
                info = await own.get_info(key)
                if info.digest == _digest(key) and info.size == size:
                    # Writing the object again would break reads that are running.
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
                    # If the object is overwritten during the read, it yields nothing.
                    async with asyncio.timeout(SECONDS + info.size / MIN_BYTES_PER_S):
                        await found.get(key, writeinto=target)  # type: ignore[arg-type]
                return
        raise gone(key, self.place)

    async def _own(self, stream: JetStreamContext) -> ObjectStore:
        try:
            info = await stream.stream_info(_STREAM + self.bucket)
        except nats.js.errors.NotFoundError:
            settings = ObjectStoreConfig(
                bucket=self.bucket, description=OURS, replicas=self._replicas
            )
            return await stream.create_object_store(self.bucket, settings)
        if info.config.description != OURS:
            message = (
                f"the NATS bucket {self.bucket} was not made by NoETL: name another one"
            )
            raise StoreError(message, "store.denied")
        return await stream.object_store(self.bucket)

    async def _buckets(self, stream: JetStreamContext) -> list[str]:
        """List the buckets of NoETL, ``self.bucket`` first."""
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
        """Connect, and raise ``StoreError`` without NATS' text.

        That text may quote the address, which may have a password.
        """
        client = CarefulClient(self._tls)
        refusal = _Refusal()
        try:
            await client.join(
                self._address,
                name="noetl-results",
                allow_reconnect=False,
                max_reconnect_attempts=1,
                reconnect_time_wait=0,
                connect_timeout=2,
                error_cb=refusal.note,
            )
            async with refusal.limit:
                yield client.jetstream(timeout=SECONDS)
        except nats.js.errors.DigestMismatchError:
            raise BlobCorrupt(f"{self.place}: an object is damaged") from None
        except (nats.errors.Error, OSError, TimeoutError) as error:
            if refusal.came:
                message = f"{self.place}: NATS denies its user this operation"
                hint = "noetl up allows the buckets in nats_buckets; for a NATS of your"
                message = f"{message}; {hint} own see deploy/nats.conf"
                raise StoreError(message, "store.denied") from None
            why = type(error).__name__
            message = f"{self.place} does not answer ({why})"
            raise StoreError(message, "store.unreachable") from None
        finally:
            with suppress(nats.errors.Error, OSError):
                await client.close()


def _digest(key: str) -> str:
    return "SHA-256=" + base64.urlsafe_b64encode(bytes.fromhex(key)).decode()


def _moment(info: ObjectInfo) -> float:
    """Return the time of the last ``put``, which is stored in the description."""
    try:
        return float(info.description or "")
    except ValueError:
        return datetime.fromisoformat(info.mtime or "1970-01-01T00:00Z").timestamp()


class _Refusal:
    """Ends the wait for an answer by ``limit`` when NATS reports a denied subject.

    NATS sends no answer to the request itself.
    """

    def __init__(self) -> None:
        self.came = False
        self.limit = asyncio.timeout(None)

    async def note(self, error: Exception) -> None:
        """Note a denied subject; other errors reach the waiting request."""
        if is_denied(error) and not self.came:
            self.came = True
            self.limit.reschedule(asyncio.get_running_loop().time())
