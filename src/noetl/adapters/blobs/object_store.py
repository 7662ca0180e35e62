"""Clients of cloud object stores, with the credentials of the environment."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import obstore
from obstore.exceptions import (
    BaseError,
    NotFoundError,
    PermissionDeniedError,
    UnauthenticatedError,
)
from obstore.store import AzureStore, GCSStore, S3Store

from noetl.adapters.blobs.files import (
    check_key,
    copy_of,
    gone,
    is_key,
    key_of,
    key_of_file,
    remove_old,
)
from noetl.errors import BlobCorrupt, ConfigError, StoreError
from noetl.ports import Blob

if TYPE_CHECKING:
    from obstore import ObjectMeta
    from obstore.store import ObjectStore, RetryConfig


_RETRY: RetryConfig = {"max_retries": 5, "retry_timeout": timedelta(seconds=60)}

_NEEDS = {
    "s3": "AWS_REGION, AWS_ENDPOINT, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY",
    "gs": "GOOGLE_SERVICE_ACCOUNT, the file of a service account's key",
    "az": "AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY",
}


def open_store(address: str) -> ObjectStore:
    """Open the client. Raises ``ConfigError`` if the cloud's settings are invalid."""
    found = urlsplit(address)
    place: dict[str, Any] = {"retry_config": _RETRY}
    prefix = unquote(found.path).strip("/")
    if prefix:
        place["prefix"] = prefix
    try:
        match found.scheme:
            case "s3":
                place["checksum_algorithm"] = "SHA256"
                return S3Store(found.netloc, **place)
            case "gs":
                return GCSStore(found.netloc, **place)
            case _:
                return AzureStore(found.netloc, **place)
    except (BaseError, ValueError):  # the text may quote a variable
        message = (
            f"{address}: the client cannot be set up; check {_NEEDS[found.scheme]}"
        )
        raise ConfigError(message) from None


_STATUS = re.compile(r"\bstatus[: ]+(?:code[: ]+)?([1-5]\d\d)\b", re.IGNORECASE)
_CODE = re.compile(r"<Code>([A-Za-z]{1,60})</Code>")
_CREDENTIAL = re.compile(r"credential|metadata endpoint|token", re.IGNORECASE)
_UNREACHABLE = re.compile(
    r"error sending request|connect|dns|timed out|retries", re.IGNORECASE
)
_REFUSED = frozenset({"401", "403"})


def translate(error: Exception, place: str, what: str) -> StoreError:
    """Translate an error, keeping only its status or code.

    ``place`` must not contain a credential.
    """
    text = str(error)
    status, code = _STATUS.search(text), _CODE.search(text)
    named = code[1] if code else f"status {status[1]}" if status else ""
    said = f" ({named})" if named else ""
    start = f"{place}: {what}"
    if (
        isinstance(error, PermissionDeniedError | UnauthenticatedError)
        or (status and status[1] in _REFUSED)
        or (not status and _CREDENTIAL.search(text))
    ):
        message = f"{start}: the credential is missing or refused{said}"
        return StoreError(message, "store.denied")
    if said:
        message = f"{start}: the store returned an error{said}"
        return StoreError(message, "store.io")
    if _UNREACHABLE.search(text):
        message = f"{start}: the store cannot be reached"
        return StoreError(message, "store.unreachable")
    return StoreError(f"{start}: {type(error).__name__}", "store.io")


_PART = 8 * 1024 * 1024
_AT_ONCE = 4  # parts that are uploaded in parallel, each held in memory


class ObjectBlobs:
    """``home`` is the id of this installation; ``others`` counts the other ones."""

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
        # Also if the blob exists: it may be damaged, or about to be removed as old.
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
            message = f"blob {key} was stored, but is missing or incomplete"
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
        """Yield the bytes in chunks. Raises ``BlobCorrupt`` after the last one."""
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
            raise BlobCorrupt(f"blob {key} is damaged: its content has changed")

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
