"""Stores of results by address: a folder, an object store of a cloud, a plug-in."""

from __future__ import annotations

import asyncio
import os
import secrets
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit

from noetl.adapters.blobs.files import (
    ENDING,
    FileBlobs,
    check_bytes,
    check_key,
    key_of,
    remove_old,
)
from noetl.adapters.plugins.enabled import how_to_enable
from noetl.adapters.plugins.tool_guard import made
from noetl.dsl.diagnostics import did_you_mean
from noetl.errors import ConfigError, StoreError
from noetl.extras import install_command
from noetl.plugins import ResultPlugin, ResultStore
from noetl.ports import Blob, Blobs


class GuardedBlobs:
    """Makes the keys and verifies the bytes, so that the plug-in need not.

    The plug-in need not list or remove values: its operator cleans it up. The
    constructor raises ``ConfigError`` if the plug-in refuses the address.
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
            message = f"{self.place} returned a {type(data).__name__}, not bytes"
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
        yield  # makes this function a generator

    async def remove(self, key: str, before: float) -> bool:
        raise self._unlisted()

    async def sweep(self, before: float, *, dry_run: bool = False) -> Sequence[Blob]:
        return await asyncio.to_thread(remove_old, self.drafts, before, dry_run)

    async def others(self) -> int:
        raise self._unlisted()

    def _unlisted(self) -> StoreError:
        message = f"{self.place} cannot be listed: clean it up with its own tools"
        return StoreError(message, "store.unlisted")

    def _failed(self, what: str, error: BaseException) -> StoreError:
        message = f"{what} in {self.place}: {type(error).__name__}: {error}"
        return StoreError(message, "store.io")


def open_blobs(
    address: str | None,
    folder: str,
    drafts: str,
    home: str,
    plugins: Mapping[str, ResultPlugin],
) -> Blobs:
    """Open the store at ``address``, or ``folder`` without one.

    ``home`` is the id of this installation. Raises ``ConfigError``.
    """
    scheme = (address or "").partition(":")[0]
    if address is None or scheme in SCHEMES:
        return open_known(address, folder, drafts, home)
    if scheme not in plugins:
        known = SCHEMES | plugins.keys()
        hint = how_to_enable("results", scheme) or did_you_mean(scheme, known)
        hint = hint or f"the known schemes are {', '.join(sorted(known))}"
        raise ConfigError(f"results_url: unknown scheme '{scheme}:…'; {hint}")
    return GuardedBlobs(plugins[scheme], address, drafts)


SCHEMES = frozenset({"file", "s3", "gs", "az"})


def open_known(address: str | None, folder: str, drafts: str, home: str) -> Blobs:
    """Open the store at ``address``, or ``folder`` without one.

    ``home`` is the id of this installation among those that share the store.
    """
    if address is None:
        return FileBlobs(folder)
    found = urlsplit(address)
    if found.scheme == "file":
        return FileBlobs(unquote(found.path))
    try:
        from noetl.adapters.blobs.object_store import ObjectBlobs, open_store
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "obstore":
            raise
        message = f"results in {address} need the package obstore"
        hint = f"run: {install_command('objects')}"
        raise ConfigError(f"{message}; {hint}") from None
    return ObjectBlobs(open_store(address), address, drafts, home)
