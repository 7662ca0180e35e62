"""Manifests of an archive: what each batch of removed executions consists of."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from hashlib import sha256
from typing import Annotated

import msgspec

from noetl.adapters.archive.places import Place
from noetl.errors import StoreError
from noetl.ports import Summary

FOLDER = "manifests"
HEAD = "head.json"
"""The file that names the last manifest."""
VERSION = 1


Name = Annotated[str, msgspec.Meta(pattern=r"^[0-9A-Za-z._-]{1,200}(?!\n)$")]
Key = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{64}(?!\n)$")]
Hash = Annotated[str, msgspec.Meta(pattern=r"^([0-9a-f]{2}){16,32}(?!\n)$")]
FilePath = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^[a-z_]{1,20}/y=[0-9]{4}/m=[0-9]{2}/[0-9A-Za-z._-]{1,200}\.parquet(?!\n)$"
    ),
]
"""Path of a file below the archive: a manifest cannot name any other file."""


class ArchivedFile(msgspec.Struct, frozen=True):
    """A file of a batch: its path in the archive, and what proves that it is whole."""

    path: FilePath
    sha256: Key
    bytes: int
    rows: int


class ArchivedExecution(msgspec.Struct, frozen=True):
    """An execution of a batch. ``last_hash`` ends the hash chain of its log;
    ``values`` are the keys of stored values that it names, ``missing`` those that were
    in no store any more, or damaged."""

    summary: Summary
    events: int
    last_hash: Hash
    request_key: str | None = None
    values: Sequence[Key] = ()
    missing: Sequence[Key] = ()

    @property
    def execution_id(self) -> str:
        return self.summary.execution_id


class Link(msgspec.Struct, frozen=True):
    """Name and digest of a manifest."""

    name: Name
    digest: str


class Head(msgspec.Struct, frozen=True):
    """The last manifest of an archive, and the one before it."""

    last: Link
    previous: Link | None


class Manifest(msgspec.Struct, frozen=True):
    """One batch. It is written last: files without a manifest do not count.

    ``previous`` is the batch before it: so a manifest that is removed is missed.
    ``digest`` is the SHA-256 of the other members, as they are written.
    """

    name: Name
    written_at: str
    files: Mapping[str, ArchivedFile]
    executions: Sequence[ArchivedExecution]
    previous: Link | None = None
    version: int = VERSION
    digest: str = ""

    @property
    def path(self) -> str:
        return path_of(self.name)

    @property
    def link(self) -> Link:
        return Link(self.name, self.digest)


def path_of(name: str) -> str:
    return f"{FOLDER}/{name}.json"


def sealed(manifest: Manifest) -> Manifest:
    """Return the manifest with its digest."""
    plain = msgspec.structs.replace(manifest, digest="")
    digest = _digest(msgspec.json.encode(plain))
    return msgspec.structs.replace(manifest, digest=digest)


async def read_head(place: Place) -> Head | None:
    text = await place.get(HEAD)
    try:
        return None if text is None else msgspec.json.decode(text, type=Head)
    except msgspec.DecodeError as error:
        raise StoreError(f"{HEAD} cannot be read: {error}", "store.corrupt") from None


async def set_head(place: Place, head: Head) -> None:
    await place.put(HEAD, msgspec.json.encode(head))


def decode_manifest(text: bytes, place: str) -> Manifest:
    """Raises ``StoreError`` (``store.corrupt``)."""
    try:
        manifest = msgspec.json.decode(text, type=Manifest)
    except msgspec.DecodeError as error:
        message = f"{place}: the manifest cannot be read: {error}"
        raise StoreError(message, "store.corrupt") from None
    plain = msgspec.structs.replace(manifest, digest="")
    if manifest.version != VERSION:
        message = f"{place}: the manifest has version {manifest.version}, and this "
        raise StoreError(f"{message}NoETL knows {VERSION}", "store.version")
    if _digest(msgspec.json.encode(plain)) != manifest.digest:
        message = f"{place}: the manifest was changed after it was written"
        raise StoreError(message, "store.corrupt")
    return manifest


async def read_manifest(place: Place, name: str) -> Manifest | None:
    text = await place.get(path_of(name))
    return None if text is None else decode_manifest(text, path_of(name))


async def each_manifest(place: Place) -> AsyncIterator[Manifest]:
    """Read all manifests in order. Raises ``StoreError``."""
    async for path in place.list_files(FOLDER):
        text = await place.get(path)
        if text is not None:
            yield decode_manifest(text, path)


def _digest(text: bytes) -> str:
    return sha256(text).hexdigest()


def value_path(key: str) -> str:
    return f"values/{key[:2]}/{key[2:]}"
