"""Kept iterations: what an undone run of a loop leaves to the run that repeats it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from noetl.engine.events import KeptIterations
from noetl.engine.ids import Path
from noetl.engine.undone import Ranges, numbers_in, ranges_of
from noetl.engine.values.references import STORE
from noetl.types import JSON

RESULTS_LIMIT = 48 * 1024  # bytes of encoded results that loop.done can hold


def kept_results(kept: JSON) -> dict[int, JSON]:
    """Return the kept results by position, from a record without references.

    The results are those of the ranges, or of the whole earlier loop.
    """
    if not kept:
        return {}
    indices = list(numbers_in(kept["ranges"]))
    results = kept["results"]
    if len(results) == len(indices):
        return dict(zip(indices, results, strict=True))
    return {index: results[index] for index in indices}


class KeptLoop(msgspec.Struct):
    """One loop of a run: its collection, and the iterations that are done.

    ``results`` is None if they are too large for one event. ``inner`` are the loops of
    iterations that are not done. ``entity`` and ``first_seq`` locate the loop in the
    log.
    """

    entity: str
    items: JSON
    total: int
    first_seq: int
    done: dict[int, bool] = msgspec.field(default_factory=dict)
    results: dict[int, JSON] | None = msgspec.field(default_factory=dict)
    size: int = 0
    inner: dict[int, KeptLoop] = msgspec.field(default_factory=dict)

    def add(self, index: int, result: JSON, size: int) -> None:
        self.done[index] = True
        self.size += size + 1  # and a comma
        if self.results is not None and self.size > RESULTS_LIMIT:
            self.results = None
        if self.results is not None:
            self.results[index] = result

    @property
    def ranges(self) -> Ranges:
        return ranges_of(self.done)

    def as_json(self, last_seq: int) -> KeptIterations:
        """Return the record for ``loop.started``."""
        results: JSON = {
            "store": STORE,
            "key": f"log:{self.entity}",
            "range": f"{self.first_seq}-{last_seq}",
            "size": self.size,
            "schema_hint": "list",
        }
        if self.results is not None:
            results = [self.results[index] for index in sorted(self.done)]
        run = self.entity.partition("/")[0]
        ranges = [list(each) for each in self.ranges]
        return {
            "step_run_id": run,
            "done": len(self.done),
            "ranges": ranges,
            "results": results,
        }


class KeptRun(msgspec.Struct):
    """The kept iterations of all undone runs that took the same token.

    ``set_ctx`` has their patches, the last one of each key, in the order of writing;
    ``writers`` the iteration that wrote a key. ``pending`` are the patches of
    iterations that have not ended.
    """

    step: str
    run: str
    root: KeptLoop | None = None
    depth: int = 0
    last_seq: int = 0
    set_ctx: dict[str, JSON] = msgspec.field(default_factory=dict)
    writers: dict[str, str] = msgspec.field(default_factory=dict)
    pending: dict[str, list[dict[str, JSON]]] = msgspec.field(default_factory=dict)

    def find(self, path: Path) -> KeptLoop | None:
        """Return the loop at a path, if it has something to keep."""
        loop = self.root
        for index in path:
            loop = loop.inner.get(index) if loop is not None else None
        if loop is None or not (loop.done or loop.inner):
            return None
        return loop

    def open(self, path: Path, loop: KeptLoop) -> None:
        """Put the loop at its path, as the newest run has opened it."""
        if not path:
            self.root = loop
            return
        node = self.root
        for index in path[:-1]:
            node = node.inner.get(index) if node is not None else None
        if node is not None:
            node.inner[path[-1]] = loop

    def close(self, path: Path, result: JSON, size: int) -> None:
        """Keep an iteration, unless an iteration inside it is not kept."""
        loop = self.root
        for index in path[:-1]:
            loop = loop.inner.get(index) if loop is not None else None
        if loop is None:
            return
        index = path[-1]
        inside = loop.inner.get(index)
        if len(path) < self.depth and (
            inside is None or len(inside.done) < inside.total
        ):
            return
        loop.inner.pop(index, None)
        loop.add(index, result, size)

    def write(self, iteration_id: str, patch: Mapping[str, JSON]) -> None:
        for key, value in patch.items():
            self.set_ctx.pop(key, None)  # the order of the last writing counts
            self.set_ctx[key] = value
            self.writers[key] = iteration_id
