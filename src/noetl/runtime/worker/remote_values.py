"""Values and secrets of a pipeline that runs on another machine than the server."""

from __future__ import annotations

import asyncio
import io
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from hashlib import file_digest, sha256
from typing import IO, TypeVar

import msgspec

from noetl.engine.secrets.handles import Secrets
from noetl.engine.values.references import Values, check_format
from noetl.errors import (
    BlobCorrupt,
    BlobFormat,
    BlobGone,
    BlobNotOwned,
    LeaseLost,
    Refused,
    SecretError,
    StoreError,
)
from noetl.ports import Blob, Blobs, Lease, TaskPlace
from noetl.runtime.dispatcher import WorkItem
from noetl.runtime.worker.result_writer import new_draft
from noetl.runtime.worker.server_connection import ServerConnection
from noetl.runtime.worker_protocol import messages
from noetl.runtime.worker_protocol.sealing import Seal, seal_value, unseal_value
from noetl.types import JSON

_MISSES: dict[str, type[StoreError]] = {
    each.kind: each for each in (BlobGone, BlobCorrupt, BlobNotOwned, BlobFormat)
}


class RemoteValues:
    """Values that are read and written through the server, which checks ownership.

    Values that the pipeline has stored stay here until its end: no event names them
    yet, and its next task is likely to read them. ``receipts`` are the server's, by
    key.
    """

    def __init__(
        self,
        connection: ServerConnection,
        lease: Lease,
        drafts: str,
        receipts: dict[str, str],
    ) -> None:
        self.drafts = drafts
        self._connection = connection
        self._under = (lease.owner, messages.LeaseKey(lease.command_id, lease.epoch))
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
                raise BlobCorrupt(f"the received blob {key} has another hash")
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
        message = messages.ValueRequest(*self._under, reference)
        try:
            return await self._connection.request(message, bytes)
        except Refused as error:
            raise _store_error(error) from None

    async def _send(self, key: str, size: int, source: IO[bytes]) -> Blob:
        message = messages.UploadRequest(*self._under, key, size)
        try:
            kept = await self._connection.upload(message, source)
        except Refused as error:
            raise _store_error(error) from None
        if kept.receipt is not None:
            self._receipts[kept.key] = kept.receipt
        return kept

    async def _fetch(self, key: str, target: IO[bytes]) -> None:
        try:
            message = messages.BlobRequest(*self._under, key)
            await self._connection.download(message, target)
        except Refused as error:
            raise _store_error(error) from None


class DirectValues(RemoteValues):
    """Values of a worker that can reach the servers' store directly.

    The server decides which of them the worker may read.
    """

    def __init__(
        self, connection: ServerConnection, lease: Lease, blobs: Blobs
    ) -> None:
        super().__init__(connection, lease, blobs.drafts, {})
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
            message = messages.BlobRequest(*self._under, key, only_check=True)
            try:
                await self._connection.request(message, bytes)
            except Refused as error:
                raise _store_error(error) from None
        async with AsyncExitStack() as stack:
            try:
                path = await stack.enter_async_context(self._blobs.file(key))
            except BlobGone:  # servers reach more stores than workers
                path = await stack.enter_async_context(super().file(key))
            yield path

    async def _value(self, reference: JSON) -> bytes:
        if reference["key"] not in self._put:
            return await super()._value(reference)
        check_format(reference)
        return await self._blobs.get(reference["key"])


def _store_error(error: Refused) -> StoreError:
    known = _MISSES.get(error.kind)
    return known(str(error)) if known else StoreError(str(error), error.kind)


T = TypeVar("T")


class RemoteSecrets:
    """Asks under the leases of ``works``, which are by command."""

    def __init__(
        self, connection: ServerConnection, seal: Seal, works: Mapping[str, WorkItem]
    ) -> None:
        self._connection = connection
        self._seal = seal
        self._works = works

    async def fetch(
        self,
        at: TaskPlace,
        name: str | None,
        provider: str | None,
        path: str | None,
    ) -> dict[str, JSON]:
        """The server reads literal inputs of the task from the playbook."""
        lease, key = self._lease(at)
        message = messages.SecretRequest(lease.owner, key, at.task, name)
        found = await self._request(message, messages.SecretReply)
        value = unseal_value(self._seal, found.secret, lease.command_id)
        for secrets in self._secrets(at.execution_id):
            secrets.put(found.handle["secret"], value)
        return found.handle

    async def authorize(
        self, at: TaskPlace, auth: Mapping[str, JSON], *, fresh: bool
    ) -> dict[str, JSON]:
        lease, key = self._lease(at)
        sealed = seal_value(self._seal, dict(auth), lease.command_id)
        message = messages.TokenRequest(lease.owner, key, at.task, sealed, fresh)
        found = await self._request(message, messages.TokenReply)
        token: dict[str, JSON] = unseal_value(self._seal, found.auth, lease.command_id)
        for secrets in self._secrets(at.execution_id):
            secrets.learn([dict(auth), token])
        return token

    def _lease(self, at: TaskPlace) -> tuple[Lease, messages.LeaseKey]:
        """A lease of the task's step. Raises ``LeaseLost``."""
        for work in self._works.values():
            frame, lease = work.frame, work.lease
            if (frame.execution_id, frame.step) == (at.execution_id, at.step):
                return lease, messages.LeaseKey(lease.command_id, lease.epoch)
        raise LeaseLost(f"nothing of {at.execution_id} runs here")

    def _secrets(self, execution_id: str) -> list[Secrets]:
        works = self._works.values()
        return [w.secrets for w in works if w.lease.execution_id == execution_id]

    async def _request(self, message: messages.Message, reply: type[T]) -> T:
        try:
            return await self._connection.request(message, reply)
        except Refused as error:
            raise SecretError(error.kind, str(error)) from None
