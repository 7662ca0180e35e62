"""Stores of large values, addressed by content."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import msgspec

from noetl.errors import StoreError, ToolError


class Blob(msgspec.Struct, frozen=True):
    """The metadata of a blob; ``at`` is when it was last put."""

    key: str
    size: int
    at: float


class Blobs(Protocol):
    """Large values by content: the key is the SHA-256 of the bytes.

    ``place`` names the location in messages. ``drafts`` is a folder on this machine for
    values that are still being written.
    """

    place: str
    drafts: str

    async def put(self, data: bytes) -> str:
        """Store the bytes durably and return the key; repeated puts store them once."""
        ...

    async def adopt(self, file: str) -> Blob:
        """Store the content of a draft file, however large, and remove the draft."""
        ...

    async def get(self, key: str) -> bytes:
        """Return the bytes, verified. Raises ``BlobGone`` or ``BlobCorrupt``."""
        ...

    def file(self, key: str) -> AbstractAsyncContextManager[str]:
        """Provide a file with the verified bytes while entered; it may be the blob
        itself.

        Raises as ``get`` when it is entered.
        """
        ...

    def each(self) -> AsyncIterator[Blob]:
        """Yield all blobs, in any order."""
        ...

    async def remove(self, key: str, before: float) -> bool:
        """Remove the blob, unless it was put again after ``before``."""
        ...

    async def sweep(self, before: float, *, dry_run: bool = False) -> Sequence[Blob]:
        """Remove drafts that were not written to since ``before``; drafts have no
        keys."""
        ...

    async def others(self) -> int:
        """Return how many other homes use this store; their references are unknown
        here."""
        ...


def tool_error(error: StoreError, message: str) -> ToolError:
    """Return the tool error for a store error during a call."""
    if error.kind == "store.unreachable":
        return ToolError("store.unreachable", message, retryable=True)
    return ToolError(error.kind, message)
