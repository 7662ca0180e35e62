"""A plugged store of results, held to the promises of its port."""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from noetl.adapters.blobs.drafts import ENDING, remove_old
from noetl.adapters.blobs.keys import check_bytes, check_key, key_of
from noetl.adapters.plugins.guards import made
from noetl.errors import StoreError
from noetl.plugins import ResultPlugin, ResultStore
from noetl.ports import Blob


class GuardedBlobs:
    """Keys are made and bytes compared here: whoever keeps them is not asked to.

    It need not list or remove: whoever runs the store cleans it up. Making it raises
    ``ConfigError`` if the plug-in refuses the address.
    """

    def __init__(self, plugin: ResultPlugin, url: str, drafts: str) -> None:
        self.place = url
        self.drafts = drafts
        self._store: ResultStore = made(f"results in {url}", lambda: plugin.make(url))

    async def put(self, data: bytes) -> str:
        key = key_of(data)
        try:
            await self._store.put(key, data)
        except StoreError:
            raise
        except (Exception, SystemExit) as error:
            raise self._failed(f"blob {key} cannot be stored", error) from error
        return key

    async def get(self, key: str) -> bytes:
        check_key(key)
        try:
            data = await self._store.get(key)
        except StoreError:
            raise
        except (Exception, SystemExit) as error:
            raise self._failed(f"blob {key} cannot be read", error) from error
        if not isinstance(data, bytes):
            message = f"{self.place} returned a {type(data).__name__}, and no bytes"
            raise StoreError(message, "store.io")
        return check_bytes(key, data)

    async def adopt(self, file: str) -> Blob:
        data = await asyncio.to_thread(Path(file).read_bytes)
        key = await self.put(data)
        await asyncio.to_thread(os.unlink, file)
        return Blob(key, len(data), time.time())

    @asynccontextmanager
    async def file(self, key: str) -> AsyncIterator[str]:
        data = await self.get(key)
        await asyncio.to_thread(os.makedirs, self.drafts, 0o700, exist_ok=True)
        copy = Path(self.drafts) / f"{secrets.token_hex(16)}{ENDING}"
        try:
            await asyncio.to_thread(copy.write_bytes, data)
            yield str(copy)
        finally:
            copy.unlink(missing_ok=True)

    async def each(self) -> AsyncIterator[Blob]:
        raise self._unlisted()
        yield  # so that it is a generator

    async def remove(self, key: str, before: float) -> bool:
        raise self._unlisted()

    async def sweep(self, before: float, *, dry_run: bool = False) -> Sequence[Blob]:
        return await asyncio.to_thread(remove_old, self.drafts, before, dry_run)

    async def others(self) -> int:
        raise self._unlisted()

    def _unlisted(self) -> StoreError:
        message = f"{self.place} cannot be listed: clean it up with its own means"
        return StoreError(message, "store.unlisted")

    def _failed(self, what: str, error: BaseException) -> StoreError:
        message = f"{what} in {self.place}: {type(error).__name__}: {error}"
        return StoreError(message, "store.io")
