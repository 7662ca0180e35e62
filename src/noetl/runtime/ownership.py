"""Who may read a reference: the execution that made it, and its relatives (I-36)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Sequence

import msgspec

from noetl.engine.events import Event
from noetl.engine.references import Values, places_in, references_in
from noetl.errors import BlobCorrupt, BlobFormat, BlobGone, BlobNotOwned
from noetl.ports import Blobs
from noetl.runtime.live import PAGE
from noetl.runtime.loading import Events, Loader
from noetl.types import JSON

REMEMBERED = 1_000


class Ledger(msgspec.Struct):
    """What a log says up to ``seq``.

    ``made`` are keys of values that were stored for this execution: events say which of
    their references they made themselves. ``given`` says from which relative others
    came: it must own them. ``deep`` are relatives whose values refer to others, and
    ``nesting`` are values of its own that do. Of a fork, ``kept`` events are those of
    its origin.
    """

    seq: int = 0
    kept: int = 0
    made: set[str] = msgspec.field(default_factory=set)
    given: dict[str, str] = msgspec.field(default_factory=dict)
    deep: set[str] = msgspec.field(default_factory=set)
    nesting: dict[str, None] = msgspec.field(default_factory=dict)

    def note(self, event: Event) -> None:
        payload = event.payload
        self.seq = event.seq
        made = set(payload.get("spilled", ()))
        for path, reference in places_in(payload) if made else ():
            if path in made:
                self.make(reference)
        if event.name == "playbook.execution.requested":
            if "fork" in payload:
                self.kept = payload["fork"]["seq"]
                self._inherit(payload)
            elif payload.get("parent") is not None:
                self._take(payload, payload["parent"]["execution_id"])
        elif event.name == "task.resumed":
            child = payload["answer"].get("execution_id")
            if event.seq <= self.kept:
                self._inherit(payload)
            elif child is not None:
                self._take(payload["answer"], child)

    def make(self, reference: dict[str, JSON]) -> None:
        self.made.add(reference["key"])
        nested = reference.get("refs", ())
        self.made.update(nested)
        self.nesting.update(dict.fromkeys(nested))

    def _inherit(self, value: JSON) -> None:
        """A fork has what its origin was given: those relatives are not its own, and
        their logs may be elsewhere."""
        for reference in references_in(value):
            self.make(reference)

    def _take(self, value: JSON, giver: str) -> None:
        for reference in references_in(value):
            self.given[reference["key"]] = giver
            if reference.get("refs"):
                self.deep.add(giver)


class Owners:
    """Reads logs, and remembers what they say."""

    def __init__(self, store: Events, blobs: Blobs) -> None:
        self._store = store
        self.loader = Loader(store, blobs)
        self._ledgers: OrderedDict[str, Ledger] = OrderedDict()

    async def load(
        self,
        execution_id: str,
        references: Sequence[JSON],
        values: Values,
        *,
        recent: Sequence[Event] = (),
        own: Collection[str] = (),
    ) -> None:
        """Supply the values; one that is another's is an error for whoever reads it.

        ``recent`` events are not in the store yet, and neither do events name the keys
        in ``own``: whoever asks has stored those himself.
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
        """The value without any reference in it. Raises ``BlobNotOwned``, and as
        ``Loader.get``."""
        for reference in references_in(value):
            await self.check(execution_id, reference.get("key"))
        return await self.loader.whole(value)

    async def check(
        self, execution_id: str, key: JSON, recent: Sequence[Event] = ()
    ) -> None:
        """Raises ``BlobNotOwned``."""
        if not isinstance(key, str) or not await self._owns(
            execution_id, key, recent, set()
        ):
            shown = str(key)[:80]
            message = f"{shown!r} is no result of {execution_id} or its relatives"
            raise BlobNotOwned(message)

    async def _owns(
        self, execution_id: str, key: str, recent: Sequence[Event], seen: set[str]
    ) -> bool:
        if key.startswith(f"log:{execution_id}-"):
            return True
        seen.add(execution_id)
        ledger = await self._ledger(execution_id, key)
        now = Ledger()
        for event in recent:
            now.note(event)
        if key in ledger.made or key in now.made:
            return True
        giver = now.given.get(key) or ledger.given.get(key)
        givers = ledger.deep | now.deep if giver is None else {giver}
        for relative in givers - seen:
            if await self._owns(relative, key, (), seen):
                return True
        return await self._is_nested(ledger, key)

    async def _ledger(self, execution_id: str, key: str) -> Ledger:
        ledger = self._ledgers.setdefault(execution_id, Ledger())
        self._ledgers.move_to_end(execution_id)
        while len(self._ledgers) > REMEMBERED:
            self._ledgers.popitem(last=False)
        while key not in ledger.made:
            page = await self._store.read(execution_id, after=ledger.seq, limit=PAGE)
            for event in page:
                if event.seq > ledger.seq:  # another one may have noted it meanwhile
                    ledger.note(event)
            if len(page) < PAGE:
                break
        return ledger

    async def _is_nested(self, ledger: Ledger, key: str) -> bool:
        """Whether a value that it owns refers to it, however deep."""
        while ledger.nesting:
            holder = next(iter(ledger.nesting))
            try:
                reference = {"key": holder, "schema_hint": None}
                value = await self.loader.get(reference)
            except (BlobCorrupt, BlobFormat, BlobGone, ValueError):
                value = None  # what is in it can be read by nobody any more
            ledger.nesting.pop(holder, None)
            for part in references_in(value):
                ledger.make(part)
        return key in ledger.made
