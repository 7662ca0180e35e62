"""Places of an archive: a folder, or a bucket of an object store."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from urllib.parse import unquote, urlsplit

from noetl.errors import ConfigError, StoreError
from noetl.extras import install_command

if TYPE_CHECKING:
    from obstore.store import ObjectStore


class Place(Protocol):
    """Files by relative paths. Raises ``StoreError``.

    A file is there as a whole or not at all, and it is durable when ``put`` or
    ``put_file`` returns.
    """

    url: str

    async def put(self, path: str, data: bytes) -> None: ...

    async def put_file(self, path: str, file: str) -> None:
        """Store the content of a local file."""
        ...

    async def get(self, path: str) -> bytes | None:
        """Return the content; None if there is no such file."""
        ...

    async def fetch(self, path: str, file: str) -> bool:
        """Copy to a new local file; return False if there is no such file."""
        ...

    async def size(self, path: str) -> int | None: ...

    async def remove(self, path: str) -> None: ...

    def list_files(self, folder: str) -> AsyncIterator[str]:
        """Iterate over the paths in a folder and below it, in order."""
        ...


def open_place(url: str) -> Place:
    """Open an archive. Raises ``ConfigError``."""
    found = urlsplit(url)
    if found.scheme == "file":
        return FolderPlace(url, Path(unquote(found.path)))
    try:
        from noetl.adapters.blobs.object_store import open_store
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "obstore":
            raise
        hint = f"run: {install_command('objects')}"
        message = f"an archive in {url} needs the package obstore; {hint}"
        raise ConfigError(message) from None
    return ObjectPlace(url, open_store(url))


class FolderPlace:
    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self._folder = folder

    async def put(self, path: str, data: bytes) -> None:
        with self._translated(path):
            await asyncio.to_thread(self._store, path, data)

    async def put_file(self, path: str, file: str) -> None:
        with self._translated(path):
            await asyncio.to_thread(self._store, path, Path(file))

    async def get(self, path: str) -> bytes | None:
        with self._translated(path):
            try:
                return await asyncio.to_thread((self._folder / path).read_bytes)
            except FileNotFoundError:
                return None

    async def fetch(self, path: str, file: str) -> bool:
        with self._translated(path):
            try:
                await asyncio.to_thread(shutil.copyfile, self._folder / path, file)
            except FileNotFoundError:
                return False
        return True

    async def size(self, path: str) -> int | None:
        with self._translated(path):
            try:
                return (self._folder / path).stat().st_size
            except FileNotFoundError:
                return None

    async def remove(self, path: str) -> None:
        with self._translated(path), suppress(FileNotFoundError):
            os.unlink(self._folder / path)

    async def list_files(self, folder: str) -> AsyncIterator[str]:
        with self._translated(folder):
            above = self._folder / folder
            names = (
                str(Path(where, name).relative_to(self._folder))
                for where, _, files in os.walk(above)
                for name in files
                if not name.endswith(_PART)
            )
            found = await asyncio.to_thread(sorted, names)
        for path in found:
            yield path

    def _store(self, path: str, source: bytes | Path) -> None:
        file = self._folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_name(file.name + _PART)
        with open(part, "wb") as opened:
            if isinstance(source, bytes):
                opened.write(source)
            else:
                with open(source, "rb") as content:
                    shutil.copyfileobj(content, opened, 1 << 20)
            opened.flush()
            os.fsync(opened.fileno())
        os.replace(part, file)
        folder = os.open(file.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)

    @contextmanager
    def _translated(self, path: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            message = f"the archive {self.url}: {path}: {error.strerror}"
            raise StoreError(message, "store.io") from None


_PART = ".part"


class ObjectPlace:
    def __init__(self, url: str, store: ObjectStore) -> None:
        self.url = url
        self._store = store

    async def put(self, path: str, data: bytes) -> None:
        import obstore

        with self._translated(path):
            await obstore.put_async(self._store, path, data)

    async def put_file(self, path: str, file: str) -> None:
        import obstore

        with self._translated(path):
            await obstore.put_async(self._store, path, Path(file))

    async def get(self, path: str) -> bytes | None:
        import obstore

        with self._translated(path):
            try:
                found = await obstore.get_async(self._store, path)
                return bytes(await found.bytes_async())
            except FileNotFoundError:
                return None

    async def fetch(self, path: str, file: str) -> bool:
        import obstore

        with self._translated(path):
            try:
                found = await obstore.get_async(self._store, path)
            except FileNotFoundError:
                return False
            opened = await asyncio.to_thread(open, file, "wb")
            with opened:
                async for part in found.stream(min_chunk_size=1 << 20):
                    opened.write(bytes(part))
        return True

    async def size(self, path: str) -> int | None:
        import obstore

        with self._translated(path):
            try:
                return int((await obstore.head_async(self._store, path))["size"])
            except FileNotFoundError:
                return None

    async def remove(self, path: str) -> None:
        import obstore

        with self._translated(path), suppress(FileNotFoundError):
            await obstore.delete_async(self._store, path)

    async def list_files(self, folder: str) -> AsyncIterator[str]:
        import obstore

        found: list[str] = []
        with self._translated(folder):
            async for page in obstore.list(self._store, folder, chunk_size=1000):
                found += [each["path"] for each in page]
        for path in sorted(found):
            yield path

    @contextmanager
    def _translated(self, path: str) -> Iterator[None]:
        from obstore.exceptions import BaseError

        from noetl.adapters.blobs.object_store import translate

        try:
            yield
        except FileNotFoundError:
            raise
        except (BaseError, OSError) as error:
            raise translate(error, f"the archive {self.url}", path) from None
