"""The store in one SQLite file: every promise of the port, kept through power cuts."""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TypeVar

from noetl.adapters.stores.chain import Damage
from noetl.adapters.stores.encoding import encode
from noetl.adapters.stores.sqlite import reading
from noetl.adapters.stores.sqlite.connections import connect_writer
from noetl.adapters.stores.sqlite.faults import translated
from noetl.adapters.stores.sqlite.leases import (
    Leases,
    disarm,
    expire_other_boots,
    forgive,
    renew,
)
from noetl.adapters.stores.sqlite.lock import Lock
from noetl.adapters.stores.sqlite.memory import Memory
from noetl.adapters.stores.sqlite.mounts import refuse_network
from noetl.adapters.stores.sqlite.places import line
from noetl.adapters.stores.sqlite.queues import (
    DirectQueue,
    Queue,
    ThreadQueue,
    closed,
    submit,
)
from noetl.adapters.stores.sqlite.readers import Readers
from noetl.adapters.stores.sqlite.removal import remove
from noetl.adapters.stores.sqlite.schema import migrate, require_current
from noetl.adapters.stores.sqlite.transitions import mark, record
from noetl.adapters.stores.sqlite.writer import Writer
from noetl.engine.events import Event
from noetl.engine.state import ExecutionStatus
from noetl.errors import StoreError
from noetl.ports import (
    Claimed,
    CommandRow,
    Lease,
    Snapshot,
    Standing,
    Summary,
    Timer,
    Transition,
)

T = TypeVar("T")


class SqliteStore:
    """One writer, in this process alone; any number of readers, in any process."""

    shared = False

    def __init__(
        self,
        path: Path,
        readers: Readers,
        queue: Queue | None = None,
        lock: Lock | None = None,
        *,
        boot_id: str = "",
        memory: Memory | None = None,
        durable_leases: bool = True,
    ) -> None:
        self.path = path
        self.boot_id = boot_id
        self._readers: Readers | None = readers
        self._queue = queue
        self._lock = lock
        self._memory = memory or Memory()
        self._leases = Leases(boot_id, self._memory)
        self._durable_leases = durable_leases

    @classmethod
    def open(
        cls,
        path: Path | str,
        *,
        threaded: bool = False,
        readonly: bool = False,
        boot_id: str | None = None,
    ) -> SqliteStore:
        """Open or make a store; raises ``StoreError`` with a kind that says why not.

        ``threaded`` writes on a thread of its own, for a server; otherwise commits
        run on the loop, and leases, whose owners live in this process, are not
        synced by themselves. Leases of another ``boot_id`` end here and now.
        """
        path = Path(path).resolve()
        refuse_network(path)
        readers = Readers(path, threaded=threaded)
        if readonly:
            with ExitStack() as undo:
                undo.callback(readers.close_now)
                readers.run_now(partial(require_current, path=path))
                undo.pop_all()
            return cls(path, readers)
        boot_id = boot_id or uuid.uuid4().hex
        lock, db = _open_writer(path, boot_id)
        memory = Memory()
        writer = Writer(db, path, memory)
        return cls(
            path,
            readers,
            ThreadQueue(writer) if threaded else DirectQueue(writer),
            lock,
            boot_id=boot_id,
            memory=memory,
            durable_leases=threaded,
        )

    def announce(self, where: str) -> None:
        """Say where the process that has this store can be talked to."""
        if self._lock is not None:
            self._lock.announce(where)

    def has_open(self) -> bool:
        """Whether some execution in it is not over."""
        assert self._readers is not None
        return self._readers.run_now(reading.has_open)

    def close_now(self) -> None:
        """Give back a store in which nothing was written."""
        if self._readers is not None:
            self._readers.close_now()
        if isinstance(self._queue, DirectQueue):
            self._queue.close_now()
        if self._lock is not None:
            self._lock.release()
        self._readers = self._queue = None

    async def close(self) -> None:
        """Store what is queued, give the file back; a second time does nothing."""
        readers, self._readers = self._readers, None
        queue, self._queue = self._queue, None
        if readers is not None:
            await readers.close()
        if queue is not None:
            await queue.close()
        if self._lock is not None and queue is not None:
            self._lock.release()

    async def commit(self, transitions: Sequence[Transition]) -> None:
        group = encode(transitions)
        size = sum(len(body) for item in group for body in item.bodies)
        if group:
            await self._write(
                partial(record, group=group, boot_id=self.boot_id, memory=self._memory),
                size=size,
            )

    async def claim(
        self, owner: str, *, pool: str, slots: int, now: float, ttl: float
    ) -> Claimed:
        if self._memory.is_quiet(pool, now):
            return Claimed()
        leases = await self._write(
            lambda db: self._leases.claim(db, owner, pool, slots, now + ttl, now),
            durable=self._durable_leases,
        )
        return Claimed(leases)

    async def renew(
        self, leases: Sequence[Lease], *, now: float, ttl: float
    ) -> Sequence[Lease]:
        return await self._write(
            lambda db: renew(db, leases, now + ttl),
            durable=self._durable_leases,
        )

    async def forgive(self, leases: Sequence[Lease]) -> None:
        await self._write(lambda db: forgive(db, leases), durable=self._durable_leases)

    async def commands(self, command_ids: Sequence[str]) -> Mapping[str, CommandRow]:
        return await self._read(lambda db: reading.commands(db, command_ids))

    async def held(self, owner: str) -> Sequence[Lease]:
        return await self._read(lambda db: reading.held(db, owner))

    async def sweep(self, *, now: float) -> Sequence[Timer]:
        return await self._write(
            lambda db: self._leases.sweep(db, now), durable=self._durable_leases
        )

    async def mark(self, summary: Summary) -> None:
        def change(db: sqlite3.Connection) -> None:
            mark(db, summary)
            self._memory.clear()

        await self._write(change)

    async def read(
        self, execution_id: str, *, after: int = 0, limit: int | None = None
    ) -> Sequence[Event]:
        return await self._read(lambda db: reading.read(db, execution_id, after, limit))

    async def pages(
        self, execution_id: str, *, after: int = 0, size: int = 2_000
    ) -> AsyncIterator[Sequence[Event]]:
        """The events in order, some at a time: a log may be larger than memory."""
        while events := await self.read(execution_id, after=after, limit=size):
            yield events
            after = events[-1].seq

    async def heads(
        self, *, after: int = 0, limit: int = 500
    ) -> Sequence[reading.Position]:
        """Every execution in the order of their numbers, some at a time."""
        return await self._read(lambda db: reading.heads(db, after, limit))

    async def length(self, execution_id: str) -> int:
        return await self._read(lambda db: reading.length(db, execution_id))

    async def snapshot(self, execution_id: str) -> Snapshot | None:
        return await self._read(lambda db: reading.snapshot(db, execution_id))

    async def find(
        self,
        *,
        status: ExecutionStatus | None = None,
        before: str | None = None,
        limit: int = 100,
    ) -> Sequence[Summary]:
        return await self._read(lambda db: reading.find(db, status, before, limit))

    async def summary(self, execution_id: str) -> Summary:
        return await self._read(lambda db: reading.summary(db, execution_id))

    async def disarm(self, timer: Timer) -> None:
        await self._write(lambda db: disarm(db, timer))

    async def find_request(self, request_key: str) -> str | None:
        return await self._read(lambda db: reading.find_request(db, request_key))

    async def places(self, key: str) -> Sequence[Standing]:
        return await self._read(lambda db: line(db, key))

    async def resolve(self, beginning: str, *, limit: int = 10) -> Sequence[str]:
        """The ids that begin so; one that is whole means itself alone."""
        return await self._read(lambda db: reading.resolve(db, beginning, limit))

    async def remove(self, execution_ids: Sequence[str]) -> None:
        """Forget executions that are over, each as a whole; all of them or none."""

        def forget(db: sqlite3.Connection) -> None:
            remove(db, execution_ids)
            self._memory.clear()

        await self._write(forget)

    async def verify(self, execution_id: str) -> Damage | None:
        """Walk the hash chain; say where it breaks first."""
        return await self._read(lambda db: reading.verify(db, execution_id))

    async def _read(self, work: Callable[[sqlite3.Connection], T]) -> T:
        if self._readers is None:
            raise closed()
        return await self._readers.run(work)

    async def _write(
        self,
        work: Callable[[sqlite3.Connection], T],
        *,
        size: int = 0,
        durable: bool = True,
    ) -> T:
        if self._queue is not None:
            return await submit(self._queue, work, size=size, durable=durable)
        if self._readers is None:
            raise closed()
        raise StoreError(f"{self.path} was opened for reading", "store.readonly")


def _open_writer(path: Path, boot_id: str) -> tuple[Lock, sqlite3.Connection]:
    with translated(path), ExitStack() as undo:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        lock = Lock(path)
        undo.callback(lock.release)
        db = connect_writer(path)
        undo.callback(db.close)
        migrate(db, path)
        expire_other_boots(db, boot_id)
        undo.pop_all()
    return lock, db
