"""Stored results of executions: listings and values."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager

import msgspec

from noetl.engine.events import Event
from noetl.engine.values.references import is_reference, places_in
from noetl.errors import BlobNotOwned, StoreError
from noetl.ports import Blobs, LogReader
from noetl.runtime.executions.loaded import EVENTS_PER_READ
from noetl.runtime.values.ownership import Owners
from noetl.service.errors import RequestRefused
from noetl.service.executions.result_rows import (
    MAX_LIST_BYTES,
    ResultRows,
    RowPage,
    check_list_size,
    no_rows,
    rows_of_list,
)
from noetl.types import JSON

LOG = "log:"
AT_ONCE = 2
"""Pages of rows that are read at the same time: threads are for others, too."""


class Named(msgspec.Struct, frozen=True):
    """A reference, and the place in the event that holds it."""

    reference: dict[str, JSON]
    path: str
    event: Event

    @property
    def key(self) -> str:
        return str(self.reference["key"])


def named_in(event: Event) -> Iterator[Named]:
    for path, reference in places_in(event.payload):
        yield Named(reference, path, event)


def keys_in(event: Event) -> Iterator[str]:
    """Yield the keys that the event keeps alive, including the playbook's source."""
    for named in named_in(event):
        yield named.key
        yield from named.reference.get("refs", ())
    playbook = event.payload.get("playbook")
    if isinstance(playbook, dict) and isinstance(playbook.get("source"), str):
        yield playbook["source"]


def execution_of(key: str) -> str:
    """Return the id of the execution whose log holds the values of a ``log:`` key."""
    return key.removeprefix(LOG).split("/")[0].rpartition("-")[0]


def line_of(named: Named) -> dict[str, JSON]:
    """Return the reference as a line of a listing."""
    event, reference = named.event, named.reference
    return {
        "key": named.key,
        "size": reference["size"],
        "checksum": reference.get("checksum"),
        "schema_hint": reference.get("schema_hint"),
        "seq": event.seq,
        "event": event.name,
        "step": event.step,
        "task": event.task_label,
        "iteration_id": event.iteration_id,
        "path": named.path,
    }


class Stored(msgspec.Struct, frozen=True):
    """A result that the caller may read.

    ``execution_id`` is the execution that owns the result; ``reference`` is its
    reference in the log, or None for a part of another value.
    """

    execution_id: str
    key: str
    reference: dict[str, JSON] | None = None

    @property
    def hint(self) -> str | None:
        return (self.reference or {}).get("schema_hint")


class Results:
    """Reads the results of executions; changes nothing."""

    def __init__(self, store: LogReader, owners: Owners, blobs: Blobs) -> None:
        self._store = store
        self._owners = owners
        self._blobs = blobs
        self._rows = ResultRows()
        self._free = asyncio.Semaphore(AT_ONCE)

    async def named(
        self, execution_id: str, *, after: int, limit: int
    ) -> tuple[Sequence[Named], int | None]:
        """Return the references in the events after a position, and the next
        position."""
        found: dict[str, Named] = {}
        while page := await self._store.read(
            execution_id, after=after, limit=EVENTS_PER_READ
        ):
            for event in page:
                if len(found) >= limit:
                    return list(found.values()), after
                for each in named_in(event):
                    found.setdefault(each.key, each)
                after = event.seq
        return list(found.values()), None

    async def find(self, key: str, executions: Sequence[str]) -> Stored:
        """Find the result in these executions. Raises ``RequestRefused``
        (``ref.not_found``)."""
        for execution_id in executions:
            try:
                await self._owners.check(execution_id, key)
            except BlobNotOwned:
                continue
            reference = await self._reference(execution_id, key)
            return Stored(execution_id, key, reference)
        raise no_result(key)

    def file(self, stored: Stored) -> AbstractAsyncContextManager[str]:
        """Open the result as a file; see ``Blobs.file``."""
        return self._blobs.file(stored.key)

    async def rows(self, stored: Stored, *, offset: int, limit: int) -> RowPage:
        """Return rows of a table: CSV, JSON lines, or a list. Raises ``RequestRefused``
        (``ref.rows``)."""
        hint = stored.hint or ""
        if hint == "parquet":
            raise no_rows("the rows of a parquet file are not shown")
        async with self._free:
            if owner_of(stored.key) is not None:
                size = (stored.reference or {}).get("size", 0)
                check_list_size(size)
                text = await self.collected(stored)
                return await asyncio.to_thread(rows_of_list, text, offset, limit)
            async with self.file(stored) as path:
                if hint in ("csv", "ndjson"):
                    return await asyncio.to_thread(
                        self._rows.of_file, stored.key, path, hint, offset, limit
                    )
                return await asyncio.to_thread(_rows_of_json, path, offset, limit)

    async def collected(self, stored: Stored) -> bytes:
        """Return the results of a loop, which are in the log, as JSON."""
        if stored.reference is None:
            raise no_result(stored.key)
        value = await self._owners.loader.get(stored.reference)
        return msgspec.json.encode(value)

    async def _reference(self, execution_id: str, key: str) -> dict[str, JSON] | None:
        after = 0
        while page := await self._store.read(
            execution_id, after=after, limit=EVENTS_PER_READ
        ):
            for event in page:
                for each in named_in(event):
                    if each.key == key and is_reference(each.reference):
                        return each.reference
            after = page[-1].seq
        return None


def _rows_of_json(path: str, offset: int, limit: int) -> RowPage:
    with open(path, "rb") as file:
        return rows_of_list(file.read(MAX_LIST_BYTES + 1), offset, limit)


def no_result(key: str) -> RequestRefused:
    """Return the same refusal for an absent result and a hidden one (row 90)."""
    hint = "GET /api/executions/{id}/results lists the results of an execution"
    return RequestRefused("ref.not_found", f"{key[:80]!r} is not a stored result", hint)


def owner_of(key: str) -> str | None:
    """Return the id of the execution that the key names, or None."""
    return execution_of(key) if key.startswith(LOG) else None


_REF = re.compile(r"(?:sha256:)?(?P<key>[0-9a-f]{64})(?::(?P<range>.*))?", re.DOTALL)
_RANGE = re.compile(r"([0-9]{1,18})-([0-9]{1,18})")
_EXECUTION = re.compile(r"[0-9A-Za-z-]{1,63}")


class Ref(msgspec.Struct, frozen=True):
    """A key and a range as written: ``FIRST-LAST``, zero-based and inclusive."""

    key: str
    range: str | None = None

    def span(self, size: int) -> tuple[int, int]:
        """Return the offset and the length in bytes. Raises ``StoreError``."""
        if self.range is None:
            return 0, size
        found = _RANGE.fullmatch(self.range)
        first, last = (int(found[1]), int(found[2])) if found else (1, 0)
        if first > last or last >= size:
            shown = self.range[:40]
            message = (
                f"ref.range: '{shown}' is not a range within {size:,} bytes; write "
                f"KEY:FIRST-LAST, from 0-0 to 0-{max(size - 1, 0)}"
            )
            raise StoreError(message, "ref.range")
        return first, last - first + 1


def read_ref(text: str) -> Ref | None:
    """Parse the reference; None for a text that may be an execution id.

    Raises ``StoreError``.
    """
    found = _REF.fullmatch(text)
    if found is not None:
        return Ref(found["key"], found["range"])
    if _EXECUTION.fullmatch(text):
        return None
    raise not_found(text)


def not_found(text: str) -> StoreError:
    message = (
        f"ref.not_found: {text[:80]!r} is not a stored result; "
        "noetl result ls ID lists the results of an execution"
    )
    return StoreError(message, "ref.not_found")
