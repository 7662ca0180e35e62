"""Who may read a reference: the execution that made it, and its relatives (I-36)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Sequence
from contextlib import suppress

import msgspec

from noetl.engine.events import Event
from noetl.engine.references import Values, made_by, references_in
from noetl.errors import BlobCorrupt, BlobFormat, BlobGone, BlobNotOwned
from noetl.ports import Blobs
from noetl.runtime.live import PAGE
from noetl.runtime.loading import Events, Loader
from noetl.types import JSON

REMEMBERED = 1_000


class Ledger(msgspec.Struct):
    """What a log says up to ``seq``.

    ``made`` are keys of values that were stored for this execution: events say which of
    their references they made themselves. Whatever else is inside of a stored value
    proves nothing: templates and tools may have written it. ``given`` says from which
    relative others came: it must own them. ``deep`` are relatives whose values refer to
    others. Of a fork, ``kept`` events are those of its origin; since ``proven`` forks
    they say which keys the origin could read.
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
        """A fork has what its origin was given and could read: those relatives are not
        its own, and their logs may be elsewhere."""
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
    """Reads logs, and remembers what they say."""

    def __init__(self, store: Events, blobs: Blobs) -> None:
        self._store = store
        self.loader = Loader(store, blobs, self.check)
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
        return await self.loader.whole(execution_id, value)

    async def readable(self, execution_id: str, value: JSON) -> list[str]:
        """Keys of all that an execution can read by way of a value, however deep."""
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
        return False

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
