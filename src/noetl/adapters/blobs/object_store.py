"""Blobs as objects of a cloud's store: S3, Google Cloud Storage, Azure."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING

import obstore
from obstore.exceptions import BaseError, NotFoundError

from noetl.adapters.blobs.drafts import copy_of, remove_old
from noetl.adapters.blobs.keys import check_key, gone, is_key, key_of, key_of_file
from noetl.adapters.blobs.refusals import translate
from noetl.errors import BlobCorrupt, StoreError
from noetl.ports import Blob

if TYPE_CHECKING:
    from obstore import ObjectMeta
    from obstore.store import ObjectStore

_PART = 8 * 1024 * 1024
_AT_ONCE = 4  # parts on their way: what a large draft takes of the memory


class ObjectBlobs:
    """``home`` says who uses the store: whoever cleans up asks for the others."""

    def __init__(self, store: ObjectStore, place: str, drafts: str, home: str) -> None:
        self._store = store
        self._home = home
        self._is_known = False
        self.place = place
        self.drafts = drafts

    async def put(self, data: bytes) -> str:
        key = key_of(data)
        await self._put(key, data, len(data))
        return key

    async def adopt(self, file: str) -> Blob:
        key, size = await asyncio.to_thread(_measure, file)
        blob = await self._put(key, Path(file), size)
        await asyncio.to_thread(os.unlink, file)
        return blob

    async def get(self, key: str) -> bytes:
        parts = []
        async for part in self._parts(check_key(key)):
            parts.append(part)
        return b"".join(parts)

    @asynccontextmanager
    async def file(self, key: str) -> AsyncIterator[str]:
        async with copy_of(self._parts(check_key(key)), self.drafts) as name:
            yield name

    async def each(self) -> AsyncIterator[Blob]:
        with self._translated("its listing"):
            async for page in obstore.list(self._store, "blobs", chunk_size=1000):
                for found in page:
                    key = found["path"].removeprefix("blobs/").replace("/", "")
                    if is_key(key):
                        yield _blob(key, found)

    async def remove(self, key: str, before: float) -> bool:
        found = await self._head(check_key(key))
        if found is None or found.at >= before:
            return False
        with self._translated(f"blob {key}"):
            await obstore.delete_async(self._store, _path(key))
        return True

    async def sweep(self, before: float, *, dry_run: bool = False) -> Sequence[Blob]:
        return await asyncio.to_thread(remove_old, self.drafts, before, dry_run)

    async def others(self) -> int:
        count = 0
        with self._translated("its listing"):
            async for page in obstore.list(self._store, "homes"):
                count += sum(each["path"] != f"homes/{self._home}" for each in page)
        return count

    async def _put(self, key: str, data: bytes | Path, size: int) -> Blob:
        await self._sign_in()
        # Also if it is there: it may be damaged, or about to be removed for its age.
        with self._translated(f"blob {key} cannot be stored"):
            await obstore.put_async(
                self._store,
                _path(key),
                data,
                chunk_size=_PART,
                max_concurrency=_AT_ONCE,
            )
        found = await self._head(key)
        if found is None or found.size != size:
            message = f"blob {key} was stored, and is not there, or not whole"
            raise StoreError(message, "store.io")
        return found

    async def _sign_in(self) -> None:
        if not self._is_known:
            with self._translated("it cannot be written"):
                await obstore.put_async(self._store, f"homes/{self._home}", b"\n")
            self._is_known = True

    async def _head(self, key: str) -> Blob | None:
        with self._translated(f"blob {key}"):
            try:
                return _blob(key, await obstore.head_async(self._store, _path(key)))
            except (NotFoundError, FileNotFoundError):
                return None

    async def _parts(self, key: str) -> AsyncIterator[bytes]:
        """What the store has, verified at its end."""
        digest = sha256()
        with self._translated(f"blob {key}"):
            try:
                found = await obstore.get_async(self._store, _path(key))
            except (NotFoundError, FileNotFoundError):
                raise gone(key, self.place) from None
            async for part in found.stream(min_chunk_size=1 << 20):
                digest.update(part)
                yield bytes(part)
        if digest.hexdigest() != key:
            raise BlobCorrupt(f"blob {key} holds something else")

    @contextmanager
    def _translated(self, what: str) -> Iterator[None]:
        try:
            yield
        except (BaseError, OSError) as error:
            raise translate(error, self.place, what) from None


def _measure(file: str) -> tuple[str, int]:
    with open(file, "rb") as draft:
        return key_of_file(draft), os.fstat(draft.fileno()).st_size


def _path(key: str) -> str:
    return f"blobs/{key[:2]}/{key[2:]}"


def _blob(key: str, found: ObjectMeta) -> Blob:
    return Blob(key, found["size"], found["last_modified"].timestamp())
