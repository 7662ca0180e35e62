"""The store in PostgreSQL: every promise of the port, for any number of servers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from importlib.resources import files
from typing import Any, TypeVar

import msgspec

from noetl.adapters.postgres import Postgres
from noetl.adapters.scripts import read_migrations
from noetl.adapters.stores.chain import Damage, first_damage
from noetl.adapters.stores.encoding import (
    decode,
    decode_summary,
    encode,
    encode_summary,
    read_line,
)
from noetl.adapters.stores.leasing import GRACE
from noetl.adapters.stores.postgres.commits import Committer
from noetl.adapters.stores.postgres.places import LINE, standings
from noetl.adapters.stores.refusals import refuse_foreign
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

_SQL = files(__package__) / "sql"
_NEWEST = (1 << 63) - 1
_HEAD = "SELECT number, last_seq, last_hash, summary FROM execution "
_EVENTS = (
    "SELECT x.last_seq, e.seq, e.body FROM execution AS x LEFT JOIN event AS e "
    "ON e.execution = x.number AND e.seq > $2 AND e.seq <= x.last_seq "
    "WHERE x.execution_id = $1 ORDER BY e.seq"
)
_LINKS = "SELECT seq, hash, body FROM event WHERE execution = $1 ORDER BY seq"
_SNAPSHOT = (
    "SELECT s.seq, s.body FROM snapshot AS s JOIN execution AS x "
    "ON x.number = s.execution WHERE x.execution_id = $1"
)
_DISARM = (
    "DELETE FROM timer AS t USING execution AS x WHERE x.number = t.execution "
    "AND t.timer_id = $1 AND x.execution_id = $2"
)
_HELD = (
    "SELECT c.command_id, x.execution_id, c.owner, c.epoch FROM command AS c "
    "JOIN execution AS x ON x.number = c.execution "
    "WHERE c.state = 'leased' AND c.owner = $1 ORDER BY c.command_id"
)
_COMMANDS = (
    "SELECT c.command_id, x.execution_id, c.pool, c.epoch, c.owner, "
    "coalesce(c.state = 'leased', false), c.reported "
    "FROM command AS c JOIN execution AS x ON x.number = c.execution "
    "WHERE c.command_id = ANY ($1::text[])"
)
_FORGIVE = (
    "UPDATE command SET reported = greatest(reported, 0) "
    "WHERE command_id = $1 AND state = 'leased' AND epoch = $2 AND owner = $3"
)
_DUE = (
    "SELECT x.execution_id, t.timer_id, t.due_at, t.kind FROM timer AS t "
    "JOIN execution AS x ON x.number = t.execution WHERE t.due_at <= $1 "
    "AND x.status <> 'quarantined' "
    "ORDER BY t.due_at, t.execution, t.timer_id"
)


class PostgresStore:
    """Commits go through one queue; readers and claims have connections beside it."""

    shared = True

    def __init__(self, postgres: Postgres) -> None:
        self._postgres = postgres
        self._committer = Committer(postgres)
        self._turns: dict[str, int] = {}

    @classmethod
    async def open(cls, postgres: Postgres) -> PostgresStore:
        """Connect, and bring the tables up to date. Raises ``StoreError``.

        Whoever made the connections closes them.
        """
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
        self, owner: str, *, pool: str, slots: int, now: float, ttl: float
    ) -> Claimed:
        turn = self._turns.get(pool, 0)
        sql = "SELECT * FROM claim($1, $2, $3, $4, $5, $6)"
        rows = await self._run(
            lambda c: c.fetch(sql, owner, pool, slots, now, now + ttl, turn)
        )
        if rows:
            self._turns[pool] = rows[-1]["number"]
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
        sql = "SELECT * FROM renew_leases($1, $2, $3, $4, $5)"
        values = (names, executions, epochs, owners, now + ttl)
        rows = await self._run(lambda c: c.fetch(sql, *values))
        held = {tuple(row) for row in rows}
        return [
            lease
            for lease in leases
            if (lease.command_id, lease.epoch, lease.owner) not in held
        ]

    async def commands(self, command_ids: Sequence[str]) -> Mapping[str, CommandRow]:
        rows = await self._run(lambda c: c.fetch(_COMMANDS, command_ids))
        return {name: CommandRow.read(*rest) for name, *rest in rows}

    async def forgive(self, leases: Sequence[Lease]) -> None:
        keys = [(each.command_id, each.epoch, each.owner) for each in leases]
        await self._run(lambda c: c.executemany(_FORGIVE, keys))

    async def held(self, owner: str) -> Sequence[Lease]:
        rows = await self._run(lambda c: c.fetch(_HELD, owner))
        return [Lease(*row) for row in rows]

    async def sweep(self, *, now: float) -> Sequence[Timer]:
        await self._run(lambda c: c.execute("SELECT expire_leases($1)", now - GRACE))
        rows = await self._run(lambda c: c.fetch(_DUE, now))
        return [Timer(*row) for row in rows]

    async def mark(self, summary: Summary) -> None:
        await self._known(summary.execution_id)
        text = encode_summary(summary)
        key = (summary.execution_id, summary.status, text)
        await self._run(lambda c: c.execute("SELECT mark($1, $2, $3)", *key))

    # -- reading -----------------------------------------------------------------

    async def read(
        self, execution_id: str, *, after: int = 0, limit: int | None = None
    ) -> Sequence[Event]:
        if limit == 0:
            return []
        sql = _EVENTS if limit is None else f"{_EVENTS} LIMIT {int(limit)}"
        rows = await self._run(lambda c: c.fetch(sql, execution_id, after))
        if not rows:
            return []
        last_seq = rows[0]["last_seq"]
        if rows[0]["seq"] is None:  # nothing after that
            rows = []
        for seq, row in enumerate(rows, after + 1):
            if row["seq"] != seq:
                raise _missing(execution_id, seq)
        if after + len(rows) < last_seq and len(rows) != limit:
            raise _missing(execution_id, after + len(rows) + 1)
        return decode([row["body"] for row in rows], execution_id, after)

    async def pages(
        self, execution_id: str, *, after: int = 0, size: int = 2_000
    ) -> AsyncIterator[Sequence[Event]]:
        """The events in order, some at a time: a log may be larger than memory."""
        while events := await self.read(execution_id, after=after, limit=size):
            yield events
            after = events[-1].seq

    async def length(self, execution_id: str) -> int:
        head = await self._head(execution_id)
        return 0 if head is None else int(head["last_seq"])

    async def snapshot(self, execution_id: str) -> Snapshot | None:
        row = await self._run(lambda c: c.fetchrow(_SNAPSHOT, execution_id))
        return Snapshot(*row) if row else None

    async def find(
        self,
        *,
        status: ExecutionStatus | None = None,
        before: str | None = None,
        limit: int = 100,
    ) -> Sequence[Summary]:
        number = _NEWEST if before is None else await self._number_before(before)
        sql = "SELECT execution_id, summary FROM execution WHERE number < $1 "
        sql += "AND ($3::text IS NULL OR status = $3) ORDER BY number DESC LIMIT $2"
        rows = await self._run(lambda c: c.fetch(sql, number, limit, status))
        return [read_line(*row) for row in rows]

    async def _number_before(self, execution_id: str) -> int:
        """The first number that is too large; ids are in the order of time."""
        head = await self._head(execution_id)
        if head is not None:
            return int(head["number"])
        sql = "SELECT number FROM execution WHERE execution_id < $1 "
        sql += "ORDER BY execution_id DESC LIMIT 1"
        number = await self._run(lambda c: c.fetchval(sql, execution_id))
        return int(number) + 1 if number is not None else 0

    async def summary(self, execution_id: str) -> Summary:
        return decode_summary((await self._known(execution_id))["summary"])

    async def disarm(self, timer: Timer) -> None:
        given = (timer.timer_id, timer.execution_id)
        await self._run(lambda c: c.execute(_DISARM, *given))

    async def find_request(self, request_key: str) -> str | None:
        sql = "SELECT execution_id FROM execution WHERE request_key = $1"
        found: str | None = await self._run(lambda c: c.fetchval(sql, request_key))
        return found

    async def places(self, key: str) -> Sequence[Standing]:
        return standings(await self._run(lambda c: c.fetch(LINE, key)))

    async def resolve(self, beginning: str, *, limit: int = 10) -> Sequence[str]:
        """The ids that begin so; one that is whole means itself alone."""
        if await self._head(beginning):
            return [beginning]
        sql = "SELECT execution_id FROM execution WHERE starts_with(execution_id, $1) "
        sql += "AND execution_id >= $1 ORDER BY execution_id LIMIT $2"
        rows = await self._run(lambda c: c.fetch(sql, beginning, limit))
        return [row[0] for row in rows]

    async def verify(self, execution_id: str) -> Damage | None:
        """Walk the hash chain; say where it breaks first."""
        head = await self._known(execution_id)
        rows = await self._run(lambda c: c.fetch(_LINKS, head["number"]))
        links = [tuple(row) for row in rows if row["seq"] <= head["last_seq"]]
        return first_damage(links, head["last_seq"], head["last_hash"])

    async def _head(self, execution_id: str) -> Any:
        sql = f"{_HEAD} WHERE execution_id = $1"
        return await self._run(lambda c: c.fetchrow(sql, execution_id))

    async def _known(self, execution_id: str) -> Any:
        head = await self._head(execution_id)
        if head is None:
            raise StoreError(f"there is no execution {execution_id}", "store.missing")
        return head

    async def _run(self, work: Callable[[Any], Awaitable[T]]) -> T:
        return await self._postgres.run(work)


def read_functions() -> str:
    return (_SQL / "functions.sql").read_text(encoding="utf-8")


def _missing(execution_id: str, seq: int) -> StoreError:
    message = f"execution {execution_id}: event {seq} is missing"
    return StoreError(message, "log.hash_mismatch")
