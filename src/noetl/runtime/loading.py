"""References → values: the host's part of reading (S-48)."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from noetl.engine.references import Values, is_reference
from noetl.engine.runs import path_of
from noetl.errors import BlobCorrupt, BlobGone
from noetl.ports import Blobs, Store
from noetl.runtime.live import PAGE
from noetl.types import JSON

_ENDS = ("loop.iteration.done", "loop.iteration.failed")


class Loader:
    """Reads what references stand for, from blobs and from the log itself."""

    def __init__(self, store: Store, blobs: Blobs) -> None:
        self._store = store
        self._blobs = blobs

    async def load(self, references: Sequence[JSON], values: Values) -> None:
        """Supply the values; one that is gone is an error for whoever reads it."""
        for reference in references:
            key = reference["key"]
            try:
                values.put(key, await self.get(reference), reference["size"])
            except (BlobGone, BlobCorrupt) as error:
                values.miss(key, error.kind, str(error))

    async def get(self, reference: JSON) -> JSON:
        """The value; raises ``BlobGone`` or ``BlobCorrupt``."""
        key = reference["key"]
        if key.startswith("log:"):
            return await self._results(reference)
        return msgspec.json.decode(await self._blobs.get(key))

    async def whole(self, value: JSON) -> JSON:
        """A value without any reference in it, however deep."""
        if is_reference(value):
            return await self.get(value)
        if isinstance(value, dict):
            return {key: await self.whole(item) for key, item in value.items()}
        if isinstance(value, list):
            return [await self.whole(item) for item in value]
        return value

    async def _results(self, reference: JSON) -> JSON:
        """Results of a loop, in index order: each is in its iteration's own event."""
        entity = reference["key"].removeprefix("log:")
        execution_id = entity.split("/")[0].rpartition("-")[0]
        first, last = map(int, reference["range"].split("-"))
        depth = len(path_of(entity)) + 1
        results: dict[int, JSON] = {}
        while first <= last:
            events = await self._store.read(execution_id, after=first - 1, limit=PAGE)
            for event in events:
                name = event.iteration_id or ""
                if event.seq > last or event.name not in _ENDS:
                    continue
                path = path_of(name)
                if len(path) == depth and name.startswith(f"{entity}/"):
                    value = event.payload.get("result")
                    results[path[-1]] = await self.whole(value)
            first = events[-1].seq + 1 if events else last + 1
        return [results.get(index) for index in range(max(results, default=-1) + 1)]
