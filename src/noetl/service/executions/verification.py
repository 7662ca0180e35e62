"""Verification of stored executions: hash chain, invariants, rows, stored values."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from typing import Protocol

import msgspec

from noetl.dsl.model import Playbook
from noetl.engine.events import Event
from noetl.engine.evolve import evolve
from noetl.engine.invariants import Audit, Breach
from noetl.engine.invariants.tasks import stored_values
from noetl.engine.state import State
from noetl.errors import BlobCorrupt, BlobGone, ConfigError, StoreError
from noetl.ports import Blobs, ExecutionHistory, LogVerifier, RecordReader, Records
from noetl.report.tally import VERSION
from noetl.runtime.executions.loaded import EVENTS_PER_READ
from noetl.runtime.executions.record_checks import check_records, check_snapshot
from noetl.service.executions.views.tallies import Folded
from noetl.types import JSON

MAX_BREACHES = 100
"""Maximum number of breaches that are reported for one execution."""
IN_MEMORY = 1 << 20
"""Bytes of a stored value up to which it is read into memory."""
SEEN_VALUES = 10_000
"""Keys of stored values that are remembered, so that each is read once."""

DAMAGED = frozenset({"store.corrupt", "log.hash_mismatch"})
"""Kinds of errors of reading a damaged log."""

Load = Callable[[dict[str, JSON], bytes], Playbook | None]
"""Reads the text of a playbook; None if this version cannot."""
Progress = Callable[[int], Awaitable[None]]
"""Called with the number of events that were read since the last call."""


class VerifiedStore(ExecutionHistory, LogVerifier, RecordReader, Protocol):
    """A store whose executions can be verified."""


class Verified(msgspec.Struct, frozen=True):
    """The result for one execution: its events, and the breaches found.

    ``omitted`` counts breaches beyond those that are listed.
    """

    execution_id: str
    events: int
    breaches: list[Breach]
    omitted: int = 0


class _Unread(Exception):
    """Error of a row of the log that cannot be decoded, or that is missing."""


class StoreCheck:
    """Verifies executions of one store, one at a time, with memory for one page.

    ``values`` are the stored values of this store's executions; None if they cannot be
    read from here.
    """

    def __init__(
        self,
        store: VerifiedStore,
        values: Blobs | None,
        load: Load,
        *,
        now: Callable[[], float] | None = None,
    ) -> None:
        self._store = store
        self._values = values
        self._load = load
        self._now = now
        self._playbooks: dict[str, Playbook | None] = {}

    async def verify(
        self, execution_id: str, progress: Progress | None = None
    ) -> Verified:
        """Verify one execution. Raises ``StoreError`` (``store.missing``)."""
        found: list[Breach] = []
        records, unread = await self._records(execution_id)
        now = self._now() if self._now is not None else None
        damage = await self._store.verify(execution_id)
        if damage is not None:
            whole = "the event that was recorded, or its batch"
            name = "I-04" if damage.kind == "log.hash_mismatch" else "I-51"
            found.append(Breach(name, damage.seq, damage.message, whole))
        fold = _Fold(self, records, found)
        is_read = damage is None
        try:
            async for page in self._pages(execution_id):
                if not await fold.take(page):
                    break
                if progress is not None:
                    await progress(len(page))
        except _Unread as error:
            if is_read:
                seq = fold.state.seq + 1
                found.append(Breach("I-51", seq, str(error), "a batch that decodes"))
            is_read = False
        if is_read:
            await fold.end()
            if records is not None and fold.is_whole:
                found += check_records(fold.state, records, now)
        if unread is not None:
            line = "a line that can be decoded"
            found.append(Breach("I-07", fold.state.seq, unread, line))
        found.sort(key=lambda breach: breach.seq)
        listed, count = found[:MAX_BREACHES], fold.state.seq
        return Verified(execution_id, count, listed, len(found) - len(listed))

    async def _records(self, execution_id: str) -> tuple[Records | None, str | None]:
        """Return the rows of an execution, or why they cannot be decoded."""
        try:
            return await self._store.records(execution_id), None
        except StoreError as error:
            if error.kind != "store.corrupt":
                raise
            return None, str(error)

    async def _pages(self, execution_id: str) -> AsyncIterator[Sequence[Event]]:
        """Read the log. Raises ``_Unread`` for a row that cannot be decoded."""
        try:
            async for page in self._store.pages(execution_id, size=EVENTS_PER_READ):
                yield page
        except StoreError as error:
            if error.kind not in DAMAGED:
                raise
            raise _Unread(str(error)) from error

    async def all(self, progress: Progress | None = None) -> AsyncIterator[Verified]:
        """Verify all executions, in the order of their beginnings."""
        after = 0
        while heads := await self._store.heads(after=after):
            for head in heads:
                name = head.summary.execution_id
                try:
                    yield await self.verify(name, progress)
                except StoreError as error:
                    if error.kind != "store.missing":  # removed in the meantime
                        raise
            after = heads[-1].number

    async def playbook(
        self, about: dict[str, JSON], seq: int, found: list[Breach]
    ) -> Playbook | None:
        """Return the playbook of a record, and note if its text is not stored (I-05).

        A text that cannot be read by this version is no breach.
        """
        source = about.get("source")
        if self._values is None or not isinstance(source, str):
            return None
        if source not in self._playbooks:
            if len(self._playbooks) > SEEN_VALUES:
                self._playbooks.clear()
            try:
                body = await self._values.get(source)
            except (BlobGone, BlobCorrupt) as error:
                found.append(Breach("I-05", seq, str(error), "the text as accepted"))
                return None
            try:
                self._playbooks[source] = self._load(about, body)
            except ConfigError:
                self._playbooks[source] = None
        return self._playbooks[source]

    async def check_value(self, key: str, size: int | None, seq: int) -> Breach | None:
        """Check that a stored value is there, whole, and of its size (I-35)."""
        if self._values is None:
            return None
        try:
            length = await self._length(self._values, key, size)
        except (BlobGone, BlobCorrupt) as error:
            return Breach("I-35", seq, str(error), f"the value sha256:{key}")
        if size is not None and length != size:
            message = f"the value {key} has {length} bytes"
            return Breach("I-35", seq, message, f"{size}, as its reference says")
        return None

    async def _length(self, values: Blobs, key: str, size: int | None) -> int:
        """Return the length of a value, whose bytes are compared with its key."""
        if size is not None and size <= IN_MEMORY:
            return len(await values.get(key))
        async with values.file(key) as path:
            return await asyncio.to_thread(os.path.getsize, path)


_UNFIT = (LookupError, AttributeError, AssertionError, TypeError, ValueError)
"""Errors of folding an event that contradicts the state before it."""


class _Fold:
    """Folds and audits the events of one log, a page at a time."""

    def __init__(
        self, check: StoreCheck, records: Records | None, found: list[Breach]
    ) -> None:
        self.state = State()
        self.is_whole = True
        self._check = check
        self._found = found
        self._audit = Audit()
        self._last = records.last_seq if records is not None else None
        self._bodies: dict[int, bytes] = {}
        self._tallies: dict[int, bytes] = {}
        self._folded: Folded | None = None
        self._seen: set[str] = set()
        if records is not None and records.snapshot is not None:
            self._bodies[records.snapshot.seq] = records.snapshot.body
        for version, seq, body in records.tallies if records is not None else ():
            if version == VERSION:
                self._tallies[seq] = body
                self._folded = Folded()

    async def take(self, page: Sequence[Event]) -> bool:
        """Take a page; return whether there is more to read: a live execution may have
        got on since its rows were read."""
        for event in page:
            if self._last is not None and event.seq > self._last:
                return False
            if "playbook" in event.payload:
                await self._use_playbook(event)
            self._note(self._audit.take(event))
            for key, size in stored_values(event):
                await self._see(key, size, event.seq)
            self._evolve(event)
        return True

    async def end(self) -> None:
        self._note(self._audit.end())
        for seq in sorted(self._bodies.keys() | self._tallies.keys()):
            message = f"a snapshot or tally says that it is of event {seq}"
            expected = f"a position up to {self.state.seq}"
            self._note([Breach("I-07", self.state.seq, message, expected)])

    def _evolve(self, event: Event) -> None:
        if not self.is_whole:
            self.state.seq = event.seq
            return
        try:
            evolve(self.state, event)
            if self._folded is not None:
                self._folded.take(event)
        except (
            LookupError,
            AttributeError,
            AssertionError,
            TypeError,
            ValueError,
        ) as why:
            self.is_whole = False
            if not self._audit.is_lost:
                message = f"it cannot be replayed: {type(why).__name__}: {why}"
                self._note(
                    [Breach("I-07", event.seq, message, "an event that follows")]
                )
            self._bodies.clear()
            self._tallies.clear()
            return
        body = self._bodies.pop(event.seq, None)
        if body is not None:
            self._note(check_snapshot(self.state, body, event))
        tally = self._tallies.pop(event.seq, None)
        if tally is not None and tally != msgspec.json.encode(self._folded):
            message = f"the tally at event {event.seq} is not what the log adds up to"
            self._note([Breach("I-07", event.seq, message, "the sums of the log")])

    async def _use_playbook(self, event: Event) -> None:
        about = event.payload["playbook"]
        if event.name in ("playbook.execution.requested", "workflow.forked"):
            found = self._found
            self._audit.use(await self._check.playbook(about, event.seq, found))

    async def _see(self, key: str, size: int | None, seq: int) -> None:
        if key in self._seen:
            return
        if len(self._seen) >= SEEN_VALUES:
            self._seen.clear()
        self._seen.add(key)
        breach = await self._check.check_value(key, size, seq)
        if breach is not None:
            self._note([breach])

    def _note(self, breaches: Iterable[Breach]) -> None:
        self._found.extend(breaches)
