"""The store in PostgreSQL: every promise of the ports, for any number of servers."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from importlib.resources import files
from typing import Any, TypeVar

import msgspec

from noetl.adapters.postgres import Postgres
from noetl.adapters.sql_files import read_migrations
from noetl.adapters.stores.batches import (
    MAX_EVENTS,
    Check,
    Row,
    missing_event,
    unpack_rows,
)
from noetl.adapters.stores.encoding import encode
from noetl.adapters.stores.postgres.group_commit import Committer
from noetl.adapters.stores.postgres.queries import (
    SQL,
    PlaybookLines,
    permit,
    queued_executions,
    read_records,
)
from noetl.adapters.stores.rules import (
    GRACE,
    Turn,
    count_by_pool,
    exports_of,
    idle_of,
    refuse_foreign,
    timer_of,
)
from noetl.adapters.stores.summaries import decode_summary, encode_summary, read_line
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

LOOK_AHEAD_EVERY_S = 60.0
"""Time between two calls that make partitions for executions to come."""

_NEWEST = (1 << 63) - 1
_LAST = (1 << 31) - 1
_ROWS_PER_CHECK = 10_000


class PostgresStore:
    """Commits go through one queue; reads and claims use connections beside it."""

    shared = True

    def __init__(self, postgres: Postgres) -> None:
        self._postgres = postgres
        self._playbooks = PlaybookLines(postgres)
        self._committer = Committer(postgres, self._playbooks)
        self._turns: dict[tuple[str, bool], Turn] = {}
        self._looked_ahead = 0.0

    @classmethod
    async def open(cls, postgres: Postgres) -> PostgresStore:
        """Migrate the tables. Raises ``StoreError``. The caller closes ``postgres``."""
        await postgres.migrate("log", read_migrations(__package__), read_functions())
        return cls(postgres)

    async def commit(self, transitions: Sequence[Transition]) -> None:
        refuse_foreign(transitions)
        group = encode(transitions)
        if len(group) == 1:
            await self._committer.commit(group[0])
        elif group:
            await self._committer.commit_together(group)

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
        turn = self._turns.setdefault((pool, waits), Turn())
        query = SQL["claim_waits" if waits else "claim"]
        families, executions = list(turn.executions), list(turn.executions.values())
        sought = (owner, pool, slots, now, now + ttl, turn.family)
        rows = await self._run(lambda c: c.fetch(query, *sought, families, executions))
        for row in rows:
            turn.note(row["kin"], row["number"])
        claimed = Claimed(
            Lease(row["command_id"], row["execution_id"], owner, row["epoch"])
            for row in rows
        )
        claimed.positions = {row["execution_id"]: row["last_seq"] for row in rows}
        return claimed

    async def renew(
        self, leases: Sequence[Lease], *, now: float, ttl: float
    ) -> Sequence[Lease]:
        columns = zip(*map(msgspec.structs.astuple, leases), strict=True)
        names, executions, owners, epochs = columns if leases else ((),) * 4
        values = (names, executions, epochs, owners, now + ttl)
        rows = await self._run(lambda c: c.fetch(SQL["renew"], *values))
        held = {tuple(row) for row in rows}
        return [
            lease
            for lease in leases
            if (lease.command_id, lease.epoch, lease.owner) not in held
        ]

    async def commands(self, command_ids: Sequence[str]) -> Mapping[str, CommandRow]:
        rows = await self._run(lambda c: c.fetch(SQL["commands"], command_ids))
        return {name: CommandRow.read(*rest) for name, *rest in rows}

    async def permit(
        self, lease: Lease, limits: Sequence[CallLimit], *, now: float
    ) -> float:
        return await self._run(lambda c: permit(c, lease, limits, now))

    async def forgive(self, leases: Sequence[Lease]) -> None:
        keys = [(each.command_id, each.epoch, each.owner) for each in leases]
        await self._run(lambda c: c.executemany(SQL["forgive"], keys))

    async def held(self, owner: str) -> Sequence[Lease]:
        rows = await self._run(lambda c: c.fetch(SQL["held"], owner))
        return [Lease(*row) for row in rows]

    async def count_commands(self) -> Mapping[str, Backlog]:
        rows = await self._run(lambda c: c.fetch(SQL["count_commands"]))
        return count_by_pool(rows)

    async def oldest_ready(self) -> Mapping[str, float]:
        rows = await self._run(lambda c: c.fetch(SQL["oldest_ready"]))
        return dict(rows)

    async def count_delayed(self, *, limit: int) -> Mapping[str, int]:
        rows = await self._run(lambda c: c.fetch(SQL["count_delayed"], limit))
        return dict(rows)

    async def parked(self, *, limit: int) -> Sequence[Parked]:
        rows = await self._run(lambda c: c.fetch(SQL["parked"], limit))
        lines = await self._playbooks.find([row["summary"] for row in rows])
        return [
            Parked(read_line(name, text, lines), last_seq)
            for name, text, last_seq in rows
        ]

    async def sweep(self, *, now: float) -> Sequence[Timer]:
        await self._run(lambda c: c.execute(SQL["expire_leases"], now - GRACE))
        if abs(now - self._looked_ahead) >= LOOK_AHEAD_EVERY_S:
            self._looked_ahead = now
            await self._run(lambda c: c.execute(SQL["add_partitions"]))
        rows = await self._run(lambda c: c.fetch(SQL["due_timers"], now))
        return [Timer(*row) for row in rows]

    async def set_status(self, summary: Summary) -> None:
        await self._known(summary.execution_id)
        encoded = encode_summary(summary)
        await self._playbooks.keep([encoded])
        key = (summary.execution_id, summary.status, encoded.text)
        await self._run(lambda c: c.execute(SQL["set_status"], *key))

    # -- reading -----------------------------------------------------------------

    async def read(
        self, execution_id: str, *, after: int = 0, limit: int | None = None
    ) -> Sequence[Event]:
        if limit == 0:
            return []
        last_seq, rows = await self._rows(execution_id, after, limit)
        events = unpack_rows(rows, execution_id, after, limit)
        if after + len(events) < last_seq and len(events) != limit:
            raise missing_event(execution_id, after + len(events) + 1)
        return events

    async def _rows(
        self,
        execution_id: str,
        after: int,
        limit: int | None = None,
        most: int | None = None,
    ) -> tuple[int, list[Row]]:
        """Return the position of the log, and at most ``most`` rows of these events."""
        end = _LAST if limit is None else min(after + limit, _LAST)
        given = (execution_id, after, end, MAX_EVENTS, most or limit)
        rows = await self._run(lambda c: c.fetch(SQL["rows"], *given))
        last_seq = rows[0][0] if rows else 0
        return last_seq, [Row(*row[1:]) for row in rows if row[1] is not None]

    async def pages(
        self, execution_id: str, *, after: int = 0, size: int = 2_000
    ) -> AsyncIterator[Sequence[Event]]:
        while events := await self.read(execution_id, after=after, limit=size):
            yield events
            after = events[-1].seq

    async def length(self, execution_id: str) -> int:
        head = await self._head(execution_id)
        return 0 if head is None else int(head["last_seq"])

    async def snapshot(self, execution_id: str) -> Snapshot | None:
        row = await self._run(lambda c: c.fetchrow(SQL["snapshot"], execution_id))
        return Snapshot(*row) if row else None

    async def tally(
        self, execution_id: str, version: int, *, at: int | None = None
    ) -> Snapshot | None:
        given = (execution_id, version, _LAST if at is None else at)
        row = await self._run(lambda c: c.fetchrow(SQL["tally"], *given))
        return Snapshot(*row) if row else None

    async def keep_tally(
        self, execution_id: str, version: int, tally: Snapshot
    ) -> None:
        given = (execution_id, version, tally.seq, tally.body)
        await self._run(lambda c: c.execute(SQL["keep_tally"], *given))

    async def check_writable(self) -> None:
        await self._run(lambda c: c.execute(SQL["check_writable"]))

    async def find(
        self,
        *,
        status: ExecutionStatus | None = None,
        before: str | None = None,
        limit: int = 100,
        labels: Mapping[str, str] = NO_LABELS,
    ) -> Sequence[Summary]:
        number = _NEWEST if before is None else await self._number_before(before)
        given: tuple[Any, ...] = (number, limit, status)
        if labels:
            (first, *others) = labels.items()
            names, values = zip(*others, strict=True) if others else ((), ())
            given = (*first, number, status, names, values, limit)
        query = SQL["find_by_labels" if labels else "find"]
        rows = await self._run(lambda c: c.fetch(query, *given))
        lines = await self._playbooks.find([row["summary"] for row in rows])
        return [read_line(name, text, lines) for name, text in rows]

    async def _number_before(self, execution_id: str) -> int:
        """Return the number that the page must stay below; ids are in order of time."""
        head = await self._head(execution_id)
        if head is not None:
            return int(head["number"])
        number = await self._run(
            lambda c: c.fetchval(SQL["newest_below"], execution_id)
        )
        return int(number) + 1 if number is not None else 0

    async def summary(self, execution_id: str) -> Summary:
        text = (await self._known(execution_id))["summary"]
        lines = await self._playbooks.find([text])
        return decode_summary(execution_id, text, lines)

    async def claim_exports(
        self, name: str, *, now: float, until: float, limit: int
    ) -> Sequence[str]:
        values = timer_of(name), now, until, limit
        rows = await self._run(lambda c: c.fetch(SQL["claim_exports"], *values))
        return [row["execution_id"] for row in rows]

    async def postpone_exports(
        self, name: str, execution_ids: Sequence[str], *, until: float
    ) -> None:
        values = timer_of(name), execution_ids, until
        await self._run(lambda c: c.execute(SQL["postpone_exports"], *values))

    async def end_exports(self, name: str, execution_ids: Sequence[str]) -> None:
        values = timer_of(name), execution_ids
        await self._run(lambda c: c.execute(SQL["end_exports"], *values))

    async def count_exports(self) -> Mapping[str, WaitingExports]:
        return exports_of(await self._run(lambda c: c.fetch(SQL["count_exports"])))

    async def idle(self, *, after: int, limit: int) -> IdlePage:
        rows = await self._run(lambda c: c.fetch(SQL["idle"], after, limit))
        return idle_of([tuple(row) for row in rows], limit)

    async def disarm(self, timer: Timer) -> None:
        given = (timer.timer_id, timer.execution_id)
        await self._run(lambda c: c.execute(SQL["disarm"], *given))

    async def find_request(self, request_key: str) -> str | None:
        found: str | None
        found = await self._run(lambda c: c.fetchval(SQL["request"], request_key))
        return found

    async def count_family(self, execution_id: str, *, limit: int) -> int:
        given = (execution_id, limit)
        return int(await self._run(lambda c: c.fetchval(SQL["count_family"], *given)))

    async def slots_of(self, key: str) -> Sequence[QueuedExecution]:
        return queued_executions(await self._run(lambda c: c.fetch(SQL["slots"], key)))

    async def resolve(self, part: str, *, limit: int = 10) -> Sequence[str]:
        if await self._head(part):
            return [part]
        rows = await self._run(lambda c: c.fetch(SQL["resolve"], part, limit))
        if not rows:
            rows = await self._run(lambda c: c.fetch(SQL["resolve_end"], part, limit))
        return [row[0] for row in rows]

    async def verify(self, execution_id: str) -> Damage | None:
        head = await self._known(execution_id)
        check = Check(head["last_seq"], head["last_hash"], execution_id)
        while check.damage is None:
            seq = check.seq
            _, rows = await self._rows(execution_id, seq, most=_ROWS_PER_CHECK)
            check.take(row for row in rows if row.last_seq <= check.last_seq)  # as then
            if check.seq == seq:
                break
        return check.end()

    async def records(self, execution_id: str) -> Records:
        return await self._run(lambda c: read_records(c, execution_id))

    async def strays(self, *, limit: int = 100) -> Sequence[Stray]:
        rows = await self._run(lambda c: c.fetch(SQL["strays"], limit))
        return [Stray(*row) for row in rows]

    async def heads(self, *, after: int = 0, limit: int = 500) -> Sequence[LogHead]:
        rows = await self._run(lambda c: c.fetch(SQL["heads"], after, limit))
        lines = await self._playbooks.find([row["summary"] for row in rows])
        return [
            LogHead(number, last_seq, decode_summary(name, text, lines))
            for number, last_seq, name, text in rows
        ]

    async def _head(self, execution_id: str) -> Any:
        return await self._run(lambda c: c.fetchrow(SQL["head"], execution_id))

    async def _known(self, execution_id: str) -> Any:
        head = await self._head(execution_id)
        if head is None:
            raise StoreError(f"there is no execution {execution_id}", "store.missing")
        return head

    async def _run(self, work: Callable[[Any], Awaitable[T]]) -> T:
        return await self._postgres.run(work)


def read_functions() -> str:
    """Return the functions of the database, created anew at every opening.

    ``claim_waits`` is ``claim`` for commands that only wait, which have an index.
    """
    text = (files(__package__) / "sql" / "functions.sql").read_text(encoding="utf-8")
    claim = re.search(r"^CREATE OR REPLACE FUNCTION claim\(.*?^END \$\$;\n", text, _ALL)
    assert claim is not None
    waits = claim[0].replace("FUNCTION claim(", "FUNCTION claim_waits(")
    ready = "c.state = 'ready' AND c.pool"
    return text + waits.replace(ready, f"(c.rank & 1) = 1 AND {ready}")


_ALL = re.MULTILINE | re.DOTALL
