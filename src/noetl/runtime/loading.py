"""References → values: the host's part of reading (S-48)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Protocol

import msgspec

from noetl.engine.events import Event
from noetl.engine.references import Values, check_format, is_reference
from noetl.engine.runs import path_of
from noetl.errors import BlobCorrupt, BlobFormat, BlobGone, BlobNotOwned
from noetl.ports import Blobs
from noetl.runtime.live import PAGE
from noetl.types import JSON

_ENDS = ("loop.iteration.done", "loop.iteration.failed")


class Events(Protocol):
    """Where logs are read."""

    async def read(
        self, execution_id: str, *, after: int = 0, limit: int | None = None
    ) -> Sequence[Event]: ...


Check = Callable[[str, JSON, Sequence[Event]], Awaitable[None]]
"""Whether an execution may read a key; events that are not stored yet count, too.

Raises ``BlobNotOwned``.
"""


class Loader:
    """Reads what references stand for, from blobs and from the log itself.

    Whether the first one may be read is for who asks to know; references inside of
    values are read only if ``check`` says so.
    """

    def __init__(self, store: Events, blobs: Blobs, check: Check) -> None:
        self._store = store
        self._blobs = blobs
        self._check = check

    async def load(
        self,
        references: Sequence[JSON],
        values: Values,
        recent: Sequence[Event] = (),
    ) -> None:
        """Supply the values; one that is gone is an error for whoever reads it.

        ``recent`` events are not in the store yet: whoever asks is deciding on them.
        """
        for reference in references:
            key = reference["key"]
            try:
                value = await self.get(reference, recent)
                values.put(key, value, reference["size"])
            except (BlobGone, BlobCorrupt, BlobFormat, BlobNotOwned) as error:
                values.miss(key, error.kind, str(error))

    async def get(self, reference: JSON, recent: Sequence[Event] = ()) -> JSON:
        """The value; raises ``BlobGone``, ``BlobCorrupt``, ``BlobFormat``, or
        ``BlobNotOwned`` for a reference in the results of a loop."""
        key = reference["key"]
        if key.startswith("log:"):
            return await self._results(reference, recent)
        check_format(reference)
        body = await self._blobs.get(key)
        if len(body) != reference["size"]:  # budgets are charged by it (row 91)
            raise BlobCorrupt(
                f"blob {key} has {len(body):,} bytes, and its reference says "
                f"{reference['size']:,}"
            )
        return msgspec.json.decode(body)

    async def whole(
        self, execution_id: str, value: JSON, recent: Sequence[Event] = ()
    ) -> JSON:
        """A value of an execution without any reference in it, however deep.

        Raises ``BlobNotOwned`` for one that is not the execution's, and as ``get``.
        """
        if is_reference(value):
            await self._check(execution_id, value["key"], recent)
            value = await self.get(value, recent)
            return await self.whole(execution_id, value, recent)
        if isinstance(value, dict):
            return {
                key: await self.whole(execution_id, item, recent)
                for key, item in value.items()
            }
        if isinstance(value, list):
            return [await self.whole(execution_id, item, recent) for item in value]
        return value

    async def _results(self, reference: JSON, recent: Sequence[Event]) -> JSON:
        """Results of a loop, in index order: each is in its iteration's own event."""
        entity = reference["key"].removeprefix("log:")
        depth = len(path_of(entity)) + 1
        results: dict[int, JSON] = {}
        async for event in self._range(reference, recent):
            name = event.iteration_id or ""
            path = path_of(name)
            inside = len(path) == depth and name.startswith(f"{entity}/")
            if inside and event.name in _ENDS:
                result = event.payload.get("result")
                results[path[-1]] = await self.whole(event.execution_id, result, recent)
        return [results.get(index) for index in range(max(results, default=-1) + 1)]

    async def _range(
        self, reference: JSON, recent: Sequence[Event]
    ) -> AsyncIterator[Event]:
        run = reference["key"].removeprefix("log:").split("/")[0]
        execution_id = run.rpartition("-")[0]
        first, last = map(int, reference["range"].split("-"))
        after = first - 1
        known = recent and recent[0].execution_id == execution_id
        if not known and not await self._store.read(execution_id, limit=1):
            raise BlobGone(f"the log of {execution_id}, which has it, is not here")
        while events := await self._store.read(execution_id, after=after, limit=PAGE):
            for event in events:
                if event.seq <= last:
                    yield event
            after = events[-1].seq
            if after >= last:
                return
        for event in recent:
            if after < event.seq <= last:
                yield event
