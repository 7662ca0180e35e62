"""Large values by their content."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import msgspec

from noetl.errors import StoreError, ToolError


class Blob(msgspec.Struct, frozen=True):
    """What is known of a blob without reading it; ``at`` is when it was last put."""

    key: str
    size: int
    at: float


class Blobs(Protocol):
    """Large values by their content: the key is the SHA-256 of the bytes.

    ``place`` says in a message where it looks. ``drafts`` is a folder on this machine
    for values that are still being written.
    """

    place: str
    drafts: str

    async def put(self, data: bytes) -> str:
        """Store and return the key; durable when it returns, once however often put."""
        ...

    async def adopt(self, file: str) -> Blob:
        """The same for what a draft holds, however large. Then the draft is gone."""
        ...

    async def get(self, key: str) -> bytes:
        """The bytes, verified. Raises ``BlobGone`` or ``BlobCorrupt``."""
        ...

    def file(self, key: str) -> AbstractAsyncContextManager[str]:
        """A file with the bytes, verified, for a while; it may be the blob itself.

        Raises as ``get`` when it is entered.
        """
        ...

    def each(self) -> AsyncIterator[Blob]:
        """All that are there, in no order."""
        ...

    async def remove(self, key: str, before: float) -> bool:
        """Forget it, unless it was put, once more, after that moment."""
        ...

    async def sweep(self, before: float, *, dry_run: bool = False) -> Sequence[Blob]:
        """Remove drafts that nobody has written to since; they have no keys."""
        ...

    async def others(self) -> int:
        """How many other homes keep theirs here: then nobody knows what is named."""
        ...


def tool_error(error: StoreError, message: str) -> ToolError:
    """What the error of a store is to the call that needed it."""
    if error.kind == "store.unreachable":
        return ToolError("store.unreachable", message, retryable=True)
    return ToolError(error.kind, message)
