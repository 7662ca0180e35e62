"""Values of references: who may read them (I-36), and how they are read (S-48)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import suppress
from typing import Protocol

import msgspec

from noetl.engine.events import Event
from noetl.engine.kept_loops import kept_results
from noetl.engine.runs import path_of
from noetl.engine.values.references import (
    Values,
    check_format,
    is_reference,
    made_by,
    references_in,
)
from noetl.errors import BlobCorrupt, BlobFormat, BlobGone, BlobNotOwned
from noetl.ports import Blobs
from noetl.runtime.executions.loaded import EVENTS_PER_READ
from noetl.types import JSON

_ENDS = ("loop.iteration.done", "loop.iteration.failed")


class Events(Protocol):
    """A source of logs."""

    async def read(
        self, execution_id: str, *, after: int = 0, limit: int | None = None
    ) -> Sequence[Event]: ...


Check = Callable[[str, JSON, Sequence[Event]], Awaitable[None]]
"""Checks that an execution may read a key; ``events`` not stored yet count, too.

Raises ``BlobNotOwned``.
"""


class Loader:
    """Reads the values of references, from blobs and from the log itself.

    The caller checks the outer reference; ``check`` checks references inside of values.
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
        """Supply the values; a missing value becomes an error at its use.

        ``recent`` events are not in the store yet: the caller is deciding on them.
        """
        for reference in references:
            key = reference["key"]
            try:
                value = await self.get(reference, recent)
                values.put(key, value, reference["size"])
            except (BlobGone, BlobCorrupt, BlobFormat, BlobNotOwned) as error:
                values.miss(key, error.kind, str(error))

    async def get(self, reference: JSON, recent: Sequence[Event] = ()) -> JSON:
        """Return the value. Raises ``BlobGone``, ``BlobCorrupt``, ``BlobFormat``, or
        ``BlobNotOwned`` for a reference in the results of a loop.
        """
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
        """Return a value of an execution with all references in it resolved.

        Raises ``BlobNotOwned`` for a value of another execution, and as ``get``.
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
        """Return results of a loop in index order: each is in its iteration's own
        event.
        """
        entity = reference["key"].removeprefix("log:")
        depth = len(path_of(entity)) + 1
        results: dict[int, JSON] = {}
        async for event in self._range(reference, recent):
            if event.entity_id == entity and event.name == "loop.started":
                kept = event.payload.get("kept")
                kept = await self.whole(event.execution_id, kept, recent)
                results |= kept_results(kept)
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
            raise BlobGone(
                f"the log of {execution_id}, which holds the value, is missing"
            )
        while events := await self._store.read(
            execution_id, after=after, limit=EVENTS_PER_READ
        ):
            for event in events:
                if event.seq <= last:
                    yield event
            after = events[-1].seq
            if after >= last:
                return
        for event in recent:
            if after < event.seq <= last:
                yield event


MAX_CACHED = 1_000


class ReferenceIndex(msgspec.Struct):
    """References in a log up to ``seq``.

    ``made`` are keys of values that were stored for this execution: events list the
    references they made. References inside of a stored value prove nothing: templates
    and tools may have written them. ``given`` maps others to the relative they came
    from, which must own them. ``deep`` are relatives whose values refer to others. In a
    fork, ``kept`` events are those of its origin; in ``proven`` forks they list the
    keys that the origin could read.
    """

    seq: int = 0
    kept: int = 0
    proven: bool = False
    made: set[str] = msgspec.field(default_factory=set)
    given: dict[str, str] = msgspec.field(default_factory=dict)
    deep: set[str] = msgspec.field(default_factory=set)

    def note(self, event: Event) -> None:
        payload = event.payload
        self.seq = event.seq
        self.made.update(made_by(payload))
        if event.name == "playbook.execution.requested":
            if "fork" in payload:
                self.kept = payload["fork"]["seq"]
                self.proven = "inherited" in payload["fork"]
                self._inherit(payload["fork"])
            elif payload.get("parent") is not None:
                self._take(payload, payload["parent"]["execution_id"])
        elif event.name == "task.resumed":
            child = payload["answer"].get("execution_id")
            if event.seq <= self.kept:
                self._inherit(payload)
            elif child is not None:
                self._take(payload["answer"], child)

    def _inherit(self, payload: dict[str, JSON]) -> None:
        """Add to a fork the keys that its origin was given and could read: those
        relatives are not its own, and their logs may be elsewhere.
        """
        if self.proven:
            self.made.update(payload.get("inherited", ()))
            return
        for reference in references_in(payload):
            self.made.update([reference["key"], *reference.get("refs", ())])

    def _take(self, value: JSON, giver: str) -> None:
        for reference in references_in(value):
            self.given[reference["key"]] = giver
            if reference.get("refs"):
                self.deep.add(giver)


class Owners:
    """Checks ownership of references by the logs, and caches what they contain."""

    def __init__(self, store: Events, blobs: Blobs) -> None:
        self._store = store
        self.loader = Loader(store, blobs, self.check)
        self._indexes: OrderedDict[str, ReferenceIndex] = OrderedDict()

    async def load(
        self,
        execution_id: str,
        references: Sequence[JSON],
        values: Values,
        *,
        recent: Sequence[Event] = (),
        own: Collection[str] = (),
    ) -> None:
        """Supply the values; a value of another execution becomes an error at its use.

        ``recent`` events are not in the store yet; ``own`` are keys that the caller has
        stored and no event names yet.
        """
        for reference in references:
            key = reference["key"]
            try:
                if key not in own:
                    await self.check(execution_id, key, recent)
                await self.loader.load([reference], values, recent)
            except BlobNotOwned as error:
                values.miss(key, error.kind, str(error))

    async def whole(self, execution_id: str, value: JSON) -> JSON:
        """Return the value with all references resolved. Raises ``BlobNotOwned``, and
        as ``Loader.get``.
        """
        return await self.loader.whole(execution_id, value)

    async def readable(self, execution_id: str, value: JSON) -> list[str]:
        """Return keys of everything that an execution can read through a value."""
        keys: dict[str, None] = {}
        waiting = list(references_in(value))
        while waiting:
            reference = waiting.pop()
            key = reference["key"]
            if key in keys or not await self._owns(execution_id, key, (), set()):
                continue
            keys[key] = None
            if reference.get("refs"):
                with suppress(BlobCorrupt, BlobFormat, BlobGone):
                    waiting += references_in(await self.loader.get(reference))
        return list(keys)

    async def check(
        self, execution_id: str, key: JSON, recent: Sequence[Event] = ()
    ) -> None:
        """Check that the execution may read the key. Raises ``BlobNotOwned``."""
        if not isinstance(key, str) or not await self._owns(
            execution_id, key, recent, set()
        ):
            shown = str(key)[:80]
            message = f"{shown!r} is not a result of {execution_id} or its relatives"
            raise BlobNotOwned(message)

    async def _owns(
        self, execution_id: str, key: str, recent: Sequence[Event], seen: set[str]
    ) -> bool:
        if key.startswith(f"log:{execution_id}-"):
            return True
        seen.add(execution_id)
        index = await self._index(execution_id, key)
        now = ReferenceIndex()
        for event in recent:
            now.note(event)
        if key in index.made or key in now.made:
            return True
        giver = now.given.get(key) or index.given.get(key)
        givers = index.deep | now.deep if giver is None else {giver}
        for relative in givers - seen:
            if await self._owns(relative, key, (), seen):
                return True
        return False

    async def _index(self, execution_id: str, key: str) -> ReferenceIndex:
        index = self._indexes.setdefault(execution_id, ReferenceIndex())
        self._indexes.move_to_end(execution_id)
        while len(self._indexes) > MAX_CACHED:
            self._indexes.popitem(last=False)
        while key not in index.made:
            page = await self._store.read(
                execution_id, after=index.seq, limit=EVENTS_PER_READ
            )
            for event in page:
                if event.seq > index.seq:  # another call may have read further
                    index.note(event)
            if len(page) < EVENTS_PER_READ:
                break
        return index
