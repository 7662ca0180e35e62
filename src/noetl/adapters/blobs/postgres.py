"""Blobs as rows of PostgreSQL, within reach of every server of a cluster."""

from __future__ import annotations

import asyncio
import io
import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from hashlib import sha256
from secrets import token_bytes
from typing import Any, BinaryIO

from noetl.adapters.blobs.files import (
    check_key,
    copy_of,
    gone,
    key_of,
    key_of_file,
    remove_old,
)
from noetl.adapters.postgres import Postgres
from noetl.adapters.sql_files import read_migrations
from noetl.errors import BlobCorrupt
from noetl.ports import Blob

PART = 1 << 20
_PAGE = 1_000

# The row of a blob is locked while its parts are written: a second writer of the same
# blob waits, and a removal checks its age again.
_BEGIN = (
    "INSERT INTO blob (key, size) VALUES ($1, $2) ON CONFLICT (key) DO UPDATE "
    "SET size = excluded.size, put_at = now() RETURNING extract(epoch FROM put_at)"
)
_PART = (
    "INSERT INTO blob_part (key, number, data) VALUES ($1, $2, $3) "
    "ON CONFLICT (key, number) DO UPDATE SET data = excluded.data "
    "WHERE blob_part.data IS DISTINCT FROM excluded.data"
)
_CUT = "DELETE FROM blob_part WHERE key = $1 AND number >= $2"
_HEAD = "SELECT size FROM blob WHERE key = $1"
_READ = "SELECT data FROM blob_part WHERE key = $1 AND number = $2"
_LIST = (
    "SELECT key, size, extract(epoch FROM put_at) FROM blob WHERE key > $1 "
    "ORDER BY key LIMIT $2"
)
_NEW_SECRET = "INSERT INTO receipt_secret (secret) VALUES ($1) ON CONFLICT DO NOTHING"
_REMOVE = "DELETE FROM blob WHERE key = $1 AND put_at < to_timestamp($2) RETURNING key"


class PostgresBlobs:
    """``open`` creates the tables, in the schema of the log that names the blobs."""

    place = "PostgreSQL"

    def __init__(self, postgres: Postgres, drafts: str) -> None:
        self._postgres = postgres
        self.drafts = drafts

    async def open(self) -> None:
        steps = read_migrations("noetl.adapters.blobs")
        await self._postgres.migrate("blobs", steps)

    async def secret(self) -> bytes:
        """Return the secret of this database: known to servers, never to workers."""
        await self._postgres.fetch(_NEW_SECRET, token_bytes(32))
        [[secret]] = await self._postgres.fetch("SELECT secret FROM receipt_secret")
        return bytes(secret)

    async def put(self, data: bytes) -> str:
        key = key_of(data)
        await self._put(key, len(data), io.BytesIO(data))
        return key

    async def adopt(self, file: str) -> Blob:
        with await asyncio.to_thread(open, file, "rb") as draft:
            key = await asyncio.to_thread(key_of_file, draft)
            size = os.fstat(draft.fileno()).st_size
            at = await self._put(key, size, draft)
        await asyncio.to_thread(os.unlink, file)
        return Blob(key, size, at)

    async def get(self, key: str) -> bytes:
        return b"".join([part async for part in self._parts(key)])

    @asynccontextmanager
    async def file(self, key: str) -> AsyncIterator[str]:
        async with copy_of(self._parts(key), self.drafts) as name:
            yield name

    async def each(self) -> AsyncIterator[Blob]:
        last = ""
        while page := await self._postgres.fetch(_LIST, last, _PAGE):
            for key, size, at in page:
                yield Blob(key, size, float(at))
            last = page[-1][0]

    async def remove(self, key: str, before: float) -> bool:
        return bool(await self._postgres.fetch(_REMOVE, check_key(key), before))

    async def sweep(self, before: float, *, dry_run: bool = False) -> Sequence[Blob]:
        return await asyncio.to_thread(remove_old, self.drafts, before, dry_run)

    async def others(self) -> int:
        return 0

    async def _put(self, key: str, size: int, source: BinaryIO) -> float:
        async def work(connection: Any) -> float:
            await asyncio.to_thread(source.seek, 0)  # the transaction may be retried
            async with connection.transaction():
                at = await connection.fetchval(_BEGIN, key, size)
                number = 0
                while part := await asyncio.to_thread(source.read, PART):
                    await connection.execute(_PART, key, number, part)
                    number += 1
                await connection.execute(_CUT, key, number)
            return float(at)

        return await self._postgres.run(work)

    async def _parts(self, key: str) -> AsyncIterator[bytes]:
        """Yield the bytes in chunks. Raises ``BlobCorrupt`` after the last one."""
        if not await self._postgres.fetch(_HEAD, check_key(key)):
            raise gone(key, self.place)
        digest, number = sha256(), 0
        while rows := await self._postgres.fetch(_READ, key, number):
            digest.update(rows[0][0])
            yield rows[0][0]
            number += 1
        if digest.hexdigest() != key:
            raise BlobCorrupt(f"blob {key} is damaged: its content has changed")
