"""Large values in memory: the blob store of a simulation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

import msgspec

from noetl.engine.events import Event
from noetl.engine.kept_loops import kept_results
from noetl.engine.runs import path_of
from noetl.engine.values.references import Values, is_reference
from noetl.errors import Unloaded
from noetl.types import JSON

_ENDS = frozenset({"loop.iteration.done", "loop.iteration.failed"})
_Value = TypeVar("_Value")


class InMemoryBlobs:
    """Stored values by key; results of a loop are read from the log."""

    def __init__(self, log: Sequence[Event]) -> None:
        self._log = log
        self._blobs: dict[str, bytes] = {}

    def put(self, blobs: Mapping[str, bytes]) -> None:
        self._blobs |= blobs

    def loaded(self, attempt: Callable[[], _Value], values: Values) -> _Value:
        """Call ``attempt`` until ``values`` has everything that it needs; return its
        result."""
        while True:
            try:
                return attempt()
            except Unloaded as needed:
                self.load(needed, values)

    def load(
        self, needed: Unloaded, values: Values, recent: Sequence[Event] = ()
    ) -> None:
        """Load the values; ``recent`` events are not in the log yet."""
        for reference in needed.references:
            value = self._read(reference, recent)
            values.put(reference["key"], value, reference["size"])

    def whole(self, value: JSON) -> JSON:
        """Return the value without any reference in it, however deep."""
        if is_reference(value):
            return self.whole(self._read(value, ()))
        if isinstance(value, dict):
            return {key: self.whole(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.whole(item) for item in value]
        return value

    def _read(self, reference: JSON, recent: Sequence[Event]) -> JSON:
        body = self._blobs.get(reference["key"])
        if body is not None:
            return msgspec.json.decode(body)
        return self._results(reference, recent)

    def _results(self, reference: JSON, recent: Sequence[Event]) -> list[JSON]:
        """Return the results in index order, each from its iteration's event."""
        entity = reference["key"].removeprefix("log:")
        first, last = map(int, reference["range"].split("-"))
        depth = len(path_of(entity)) + 1
        results: dict[int, JSON] = {}
        for event in (*self._log, *recent):
            if not first <= event.seq <= last:
                continue
            if event.entity_id == entity and event.name == "loop.started":
                kept = self.whole(event.payload.get("kept"))
                results |= kept_results(kept)
            if event.name not in _ENDS:
                continue
            name = event.iteration_id or ""
            path = path_of(name)
            if len(path) == depth and name.startswith(f"{entity}/"):
                results[path[-1]] = self.whole(event.payload.get("result"))
        return [results.get(index) for index in range(max(results, default=-1) + 1)]
