"""The store in one SQLite file: every promise of the ports, also after power cuts."""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import TypeVar

from noetl.adapters.secrets.private_files import make_folder
from noetl.adapters.stores.encoding import encode
from noetl.adapters.stores.rules import exports_of, timer_of
from noetl.adapters.stores.sqlite import reads
from noetl.adapters.stores.sqlite.connection import (
    Lock,
    connect_writer,
    refuse_network,
    translated,
)
from noetl.adapters.stores.sqlite.leases import (
    Leases,
    claim_exports,
    disarm,
    expire_other_boots,
    forgive,
    permit,
    remove,
    renew,
    set_status,
)
from noetl.adapters.stores.sqlite.reads import Readers
from noetl.adapters.stores.sqlite.retention import SqliteRetention
from noetl.adapters.stores.sqlite.schema import SQL, is_older, migrate, require_current
from noetl.adapters.stores.sqlite.transitions import Memory, record, slots_of
from noetl.adapters.stores.sqlite.writer import (
    DirectQueue,
    Queue,
    ThreadQueue,
    Writer,
    closed,
    submit,
)
from noetl.engine.events import Event
from noetl.engine.state import ExecutionStatus
from noetl.errors import StoreError
from noetl.ports import (
    NO_LABELS,
    Backlog,
    CallLimit,
    Claimed,
    CommandRow,
    Damage,
    IdlePage,
    Lease,
    LogHead,
    Parked,
    QueuedExecution,
    Records,
    Snapshot,
    Stray,
    Summary,
    Timer,
    Transition,
    WaitingExports,
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
        """Open or create a store. Raises ``StoreError``.

        A server is ``threaded``: it writes on a thread. Otherwise commits run on the
        event loop, and leases, whose owners end with this process, are not synced
        until the next commit of events. Leases of another ``boot_id`` end at once.
        A file of an older version is migrated first, also for a reader.
        """
        path = Path(path).resolve()
        refuse_network(path)
        readers = Readers(path, threaded=threaded)
        if readonly:
            with ExitStack() as undo:
                undo.callback(readers.close_now)
                if readers.run_now(partial(is_older, path=path)):
                    _bring_up_to_date(path)
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

    def publish_address(self, address: str) -> None:
        if self._lock is not None:
            self._lock.publish_address(address)

    def has_open(self) -> bool:
        assert self._readers is not None
        return self._readers.run_now(reads.has_open)

    def close_now(self) -> None:
        if self._readers is not None:
            self._readers.close_now()
        if isinstance(self._queue, DirectQueue):
            self._queue.close_now()
        if self._lock is not None:
            self._lock.release()
        self._readers = self._queue = None

    async def close(self) -> None:
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
        size = sum(item.size for item in group)
        if group:
            await self._write(
                partial(record, group=group, boot_id=self.boot_id, memory=self._memory),
                size=size,
            )

    async def check_writable(self) -> None:
        await self._write(lambda db: db.execute("DELETE FROM timer WHERE false"))

    async def claim(
        self,
        owner: str,
        *,
        pool: str,
        slots: int,
        now: float,
        ttl: float,
        waits: bool = False,
    ) -> Claimed:
        queue = pool, waits
        if now < self._memory.quiet.get(queue, 0.0):  # it has no ready command
            return Claimed()
        leases = await self._write(
            lambda db: self._leases.claim(db, owner, queue, slots, now + ttl, now),
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

    async def permit(
        self, lease: Lease, limits: Sequence[CallLimit], *, now: float
    ) -> float:
        return await self._write(
            lambda db: permit(db, lease, limits, now), durable=bool(limits)
        )

    async def forgive(self, leases: Sequence[Lease]) -> None:
        await self._write(lambda db: forgive(db, leases), durable=self._durable_leases)

    async def commands(self, command_ids: Sequence[str]) -> Mapping[str, CommandRow]:
        return await self._read(lambda db: reads.commands(db, command_ids))

    async def held(self, owner: str) -> Sequence[Lease]:
        return await self._read(lambda db: reads.held(db, owner))

    async def count_commands(self) -> Mapping[str, Backlog]:
        return await self._read(reads.count_commands)

    async def oldest_ready(self) -> Mapping[str, float]:
        return await self._read(reads.oldest_ready)

    async def count_delayed(self, *, limit: int) -> Mapping[str, int]:
        return await self._read(lambda db: reads.count_delayed(db, limit))

    async def parked(self, *, limit: int) -> Sequence[Parked]:
        return await self._read(lambda db: reads.parked(db, limit))

    async def sweep(self, *, now: float) -> Sequence[Timer]:
        return await self._write(
            lambda db: self._leases.sweep(db, now), durable=self._durable_leases
        )

    async def idle(self, *, after: int, limit: int) -> IdlePage:
        return await self._read(lambda db: reads.idle(db, after, limit))

    async def set_status(self, summary: Summary) -> None:
        def change(db: sqlite3.Connection) -> None:
            set_status(db, summary)
            self._memory.clear()

        await self._write(change)

    async def read(
        self, execution_id: str, *, after: int = 0, limit: int | None = None
    ) -> Sequence[Event]:
        return await self._read(lambda db: reads.read(db, execution_id, after, limit))

    async def pages(
        self, execution_id: str, *, after: int = 0, size: int = 2_000
    ) -> AsyncIterator[Sequence[Event]]:
        while events := await self.read(execution_id, after=after, limit=size):
            yield events
            after = events[-1].seq

    async def heads(self, *, after: int = 0, limit: int = 500) -> Sequence[LogHead]:
        return await self._read(lambda db: reads.heads(db, after, limit))

    async def length(self, execution_id: str) -> int:
        return await self._read(lambda db: reads.length(db, execution_id))

    async def snapshot(self, execution_id: str) -> Snapshot | None:
        return await self._read(lambda db: reads.snapshot(db, execution_id))

    async def tally(
        self, execution_id: str, version: int, *, at: int | None = None
    ) -> Snapshot | None:
        return await self._read(lambda db: reads.tally(db, execution_id, version, at))

    async def keep_tally(
        self, execution_id: str, version: int, tally: Snapshot
    ) -> None:
        row = (execution_id, version, tally.seq, tally.body)
        await self._write(lambda db: db.execute(SQL["keep_tally"], row), durable=False)

    async def find(
        self,
        *,
        status: ExecutionStatus | None = None,
        before: str | None = None,
        limit: int = 100,
        labels: Mapping[str, str] = NO_LABELS,
    ) -> Sequence[Summary]:
        return await self._read(
            lambda db: reads.find(db, status, before, limit, labels)
        )

    async def summary(self, execution_id: str) -> Summary:
        return await self._read(lambda db: reads.summary(db, execution_id))

    async def claim_exports(
        self, name: str, *, now: float, until: float, limit: int
    ) -> Sequence[str]:
        return await self._write(
            lambda db: claim_exports(db, timer_of(name), now, until, limit)
        )

    async def postpone_exports(
        self, name: str, execution_ids: Sequence[str], *, until: float
    ) -> None:
        rows = [(until, timer_of(name), each) for each in execution_ids]
        await self._write(lambda db: db.executemany(SQL["postpone_export"], rows))

    async def end_exports(self, name: str, execution_ids: Sequence[str]) -> None:
        rows = [(timer_of(name), each) for each in execution_ids]
        await self._write(lambda db: db.executemany(SQL["disarm_by_name"], rows))

    async def count_exports(self) -> Mapping[str, WaitingExports]:
        return await self._read(lambda db: exports_of(db.execute(SQL["count_exports"])))

    async def disarm(self, timer: Timer) -> None:
        await self._write(lambda db: disarm(db, timer))

    async def find_request(self, request_key: str) -> str | None:
        return await self._read(lambda db: reads.find_request(db, request_key))

    async def count_family(self, execution_id: str, *, limit: int) -> int:
        return await self._read(lambda db: reads.count_family(db, execution_id, limit))

    async def slots_of(self, key: str) -> Sequence[QueuedExecution]:
        return await self._read(lambda db: slots_of(db, key))

    async def resolve(self, part: str, *, limit: int = 10) -> Sequence[str]:
        return await self._read(lambda db: reads.resolve(db, part, limit))

    async def remove(self, execution_ids: Sequence[str]) -> None:
        await self._write(lambda db: self._forget(db, execution_ids))

    @property
    def retention(self) -> SqliteRetention:
        return SqliteRetention(self._read, self._write, self._forget)

    def _forget(self, db: sqlite3.Connection, execution_ids: Sequence[str]) -> None:
        remove(db, execution_ids)
        self._memory.clear()

    async def verify(self, execution_id: str) -> Damage | None:
        return await self._read(lambda db: reads.verify(db, execution_id))

    async def records(self, execution_id: str) -> Records:
        return await self._read(lambda db: reads.records(db, execution_id))

    async def strays(self, *, limit: int = 100) -> Sequence[Stray]:
        return await self._read(lambda db: reads.strays(db, limit))

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
        make_folder(path.parent)
        lock = Lock(path)
        undo.callback(lock.release)
        db = connect_writer(path)
        undo.callback(db.close)
        # A killed process may have left a log of which a sync failed: the system then
        # shows pages that are not on the disk. They are written anew, to the file.
        db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
        migrate(db, path)
        expire_other_boots(db, boot_id)
        undo.pop_all()
    return lock, db


def _bring_up_to_date(path: Path) -> None:
    """Migrate the file, unless another process writes it or this user may not."""
    with suppress(StoreError), translated(path), ExitStack() as undo:
        lock = Lock(path)
        undo.callback(lock.release)
        db = connect_writer(path)
        undo.callback(db.close)
        migrate(db, path)
