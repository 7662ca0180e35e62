"""Stored values of executions: which there are, and each of them."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager

import msgspec

from noetl.engine.references import is_reference
from noetl.errors import BlobNotOwned
from noetl.ports import Blobs, Store
from noetl.runtime.live import PAGE
from noetl.runtime.ownership import Owners
from noetl.service.naming import LOG, Named, execution_of, named_in
from noetl.service.refusal import Refusal
from noetl.types import JSON


class Stored(msgspec.Struct, frozen=True):
    """A value that whoever asks may read. ``reference`` is how a log names it, if it
    is not inside of another value; ``execution_id`` is whose it is."""

    execution_id: str
    key: str
    reference: dict[str, JSON] | None = None

    @property
    def hint(self) -> str | None:
        return (self.reference or {}).get("schema_hint")


class Results:
    """Reads; nothing is changed here."""

    def __init__(self, store: Store, owners: Owners, blobs: Blobs) -> None:
        self._store = store
        self._owners = owners
        self._blobs = blobs

    async def named(
        self, execution_id: str, *, after: int, limit: int
    ) -> tuple[Sequence[Named], int | None]:
        """What the events after a position name, and where to go on."""
        found: dict[str, Named] = {}
        while page := await self._store.read(execution_id, after=after, limit=PAGE):
            for event in page:
                if len(found) >= limit:
                    return list(found.values()), after
                for each in named_in(event):
                    found.setdefault(each.key, each)
                after = event.seq
        return list(found.values()), None

    async def find(self, key: str, executions: Sequence[str]) -> Stored:
        """Among these executions. Raises ``Refusal`` (``ref.not_found``)."""
        for execution_id in executions:
            try:
                await self._owners.check(execution_id, key)
            except BlobNotOwned:
                continue
            reference = await self._reference(execution_id, key)
            return Stored(execution_id, key, reference)
        raise no_result(key)

    def file(self, stored: Stored) -> AbstractAsyncContextManager[str]:
        """As ``Blobs.file``."""
        return self._blobs.file(stored.key)

    async def collected(self, stored: Stored) -> bytes:
        """The results of a loop, which are in the log, as JSON."""
        if stored.reference is None:
            raise no_result(stored.key)
        value = await self._owners.loader.get(stored.reference)
        return msgspec.json.encode(value)

    async def _reference(self, execution_id: str, key: str) -> dict[str, JSON] | None:
        after = 0
        while page := await self._store.read(execution_id, after=after, limit=PAGE):
            for event in page:
                for each in named_in(event):
                    if each.key == key and is_reference(each.reference):
                        return each.reference
            after = page[-1].seq
        return None


def no_result(key: str) -> Refusal:
    """One text for what is not there, or not theirs to see (row 90)."""
    hint = "GET /api/executions/{id}/results lists those of an execution"
    return Refusal("ref.not_found", f"{key[:80]!r} is no result that is there", hint)


def owner_of(key: str) -> str | None:
    """Whose log has it, where the key says so."""
    return execution_of(key) if key.startswith(LOG) else None
