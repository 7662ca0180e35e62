"""What PostgreSQL adds to the promises of a store: many servers, lost connections."""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

import asyncpg
import pytest

from noetl.adapters.postgres import Postgres
from noetl.adapters.stores.postgres import PostgresStore
from noetl.adapters.stores.postgres.commit_rows import statement
from noetl.adapters.stores.postgres.queries import SQL
from noetl.errors import LogConflict, StoreError
from noetl.ports import Command
from noetl.runtime.executions.quarantine import is_defect

ARGUMENTS = 50
"""Of a commit, a list each."""


@contextlib.asynccontextmanager
async def opened(address: str, **more: str) -> AsyncIterator[PostgresStore]:
    database = Postgres(address, **more)
    try:
        yield await PostgresStore.open(database)
    finally:
        await database.close()


class Between:
    """Passes bytes on; if ``deaf``, the server's are lost, and then the connection."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._open: list[asyncio.StreamWriter] = []
        self.deaf = False
        self.cuts = 0

    async def serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        far, near = await asyncio.open_connection("127.0.0.1", self._target)
        self._open += [writer, near]
        await asyncio.gather(self._pass(reader, near), self._answer(far, writer))

    async def _pass(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                writer.write(data)
        writer.close()

    async def _answer(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(65536):
                if self.deaf:  # the server has done it, and nobody hears of it
                    self.deaf = False
                    self.cuts += 1
                    writer.transport.abort()
                    break
                writer.write(data)
        writer.close()

    def end(self) -> None:
        for each in self._open:
            each.transport.abort()


@contextlib.asynccontextmanager
async def between(address: str) -> AsyncIterator[tuple[Between, str]]:
    parts = urlsplit(address)
    assert parts.port is not None
    middle = Between(parts.port)
    server = await asyncio.start_server(middle.serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    try:
        yield middle, address.replace(f":{parts.port}/", f":{port}/")
    finally:
        middle.end()
        server.close()


@pytest.mark.spec("S-46")
async def test_a_commit_whose_answer_is_lost_is_stored_once(postgres, facts):
    async with between(postgres) as (middle, address), opened(address) as store:
        await store.commit([facts.transition("x", count=2)])
        middle.deaf = True

        await store.commit([facts.transition("x", 2, count=3, commands=["x-1"])])

        assert middle.cuts == 1
        assert len(await store.read("x")) == 5
        assert await store.verify("x") is None
        assert len(await store.claim("w", pool="default", slots=9, now=1, ttl=1)) == 1


@pytest.mark.spec("S-46")
async def test_a_commit_that_never_arrived_is_made_again(postgres, facts):
    async with opened(postgres) as store:
        await store.commit([facts.transition("x")])
        other = await asyncpg.connect(postgres)
        sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        await other.execute(sql + "WHERE application_name = 'noetl'")
        await other.close()

        await store.commit([facts.transition("x", 1)])

        assert len(await store.read("x")) == 2
        assert await store.verify("x") is None


async def until_waiting(connection: asyncpg.Connection, count: int) -> None:
    """Return when so many statements wait for a lock."""
    sql = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
    while await connection.fetchval(sql) < count:
        pass


@pytest.mark.parametrize("ends", [False, True], ids=["goes on", "ends its command"])
@pytest.mark.parametrize(
    "same", [True, False], ids=["its own log", "of another server"]
)
async def test_a_commit_that_is_stored_while_it_is_repeated_is_not_refused(
    postgres, facts, ends, same
):
    """The connection is lost, but the database is still at work on its statement."""
    async with (
        between(postgres) as (middle, address),
        opened(address) as store,
        opened(postgres) as another,
    ):
        first = store if same else another
        await first.commit([facts.transition("x", commands=["x-1"])])
        [lease] = await first.claim("w", pool="default", slots=1, now=1.0, ttl=30.0)
        other = await asyncpg.connect(postgres)
        looking = await asyncpg.connect(postgres)
        holding = other.transaction()
        await holding.start()
        await other.execute("SELECT FROM noetl.execution FOR UPDATE")
        done = ["x-1"] if ends else []
        late = facts.transition("x", 1, count=2, leases=[lease], done=done)
        commit = asyncio.ensure_future(store.commit([late]))
        await until_waiting(looking, 1)

        middle.end()
        await until_waiting(looking, 2)
        await holding.commit()
        await commit

        assert len(await store.read("x")) == 3
        assert await store.verify("x") is None
        await store.commit([facts.transition("x", 3)])
        await other.close()
        await looking.close()


async def test_a_commit_that_is_stored_right_after_the_look_is_not_refused(
    postgres, facts, monkeypatch
):
    async with (
        between(postgres) as (middle, address),
        opened(address) as store,
        opened(postgres) as another,
    ):
        for name in ("x", "y"):
            await another.commit([facts.transition(name)])
        # Now the statement is prepared.
        await store.commit([facts.transition("y", 1, count=2)])
        committer = store._committer
        looks, look = iter([False]), committer._is_stored
        cuts, head = iter([True]), committer._head

        async def look_early(commit):
            return next(looks, await look(commit))

        async def cut_after_head(item):
            found = await head(item)
            middle.deaf = next(cuts, False)
            return found

        monkeypatch.setattr(committer, "_is_stored", look_early)
        monkeypatch.setattr(committer, "_head", cut_after_head)
        await store.commit([facts.transition("x", 1, count=2)])

        assert middle.cuts == 1
        assert len(await store.read("x")) == 3


@pytest.mark.spec("SRV-09")
async def test_of_two_servers_that_decide_at_once_one_wins(postgres, facts):
    async with opened(postgres) as one, opened(postgres) as other:
        await one.commit([facts.transition("x")])
        for after in range(1, 21):
            answers = await asyncio.gather(
                one.commit([facts.transition("x", after)]),
                other.commit([facts.transition("x", after)]),
                return_exceptions=True,
            )
            assert sorted(type(each) for each in answers if each) == [
                type(each) for each in answers if isinstance(each, LogConflict)
            ]
            assert len([each for each in answers if each is None]) == 1

        assert await one.verify("x") is None


@pytest.mark.spec("WKR-02")
async def test_two_servers_never_lease_a_command_twice(postgres, facts):
    async with opened(postgres) as one, opened(postgres) as other:
        names = [f"x-{number}" for number in range(200)]
        await one.commit([facts.transition("x", commands=names)])

        rounds = await asyncio.gather(
            *(
                store.claim(f"w{turn}", pool="default", slots=10, now=1.0, ttl=30.0)
                for turn in range(10)
                for store in (one, other)
            )
        )
        while last := await one.claim("w", pool="default", slots=50, now=1, ttl=30):
            rounds.append(last)

        leased = [lease.command_id for leases in rounds for lease in leases]
        assert sorted(leased) == sorted(names)


@pytest.mark.spec("S-45")
async def test_renewing_and_committing_at_once_does_not_deadlock(postgres, facts):
    async with opened(postgres) as one, opened(postgres) as other:
        names = [f"x-{number}" for number in range(40)]
        await one.commit([facts.transition("x", commands=names)])
        leases = await one.claim("w", pool="default", slots=40, now=1.0, ttl=30.0)

        async def report() -> None:
            for after, lease in enumerate(reversed(leases), 1):
                done = facts.transition(
                    "x", after, leases=[lease], done=[lease.command_id]
                )
                await one.commit([done])

        async def renew() -> None:
            for _ in range(40):
                await other.renew(leases, now=2.0, ttl=30.0)

        await asyncio.gather(report(), renew())

        assert len(await one.renew(leases, now=3.0, ttl=30.0)) == 40


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        pytest.param("53100", "store.full", id="the disk is full"),
        pytest.param("58030", "store.io", id="the disk reports an error"),
        pytest.param("53200", "store.unreachable", id="memory is short"),
    ],
)
async def test_a_full_or_failing_disk_of_postgresql_quarantines_no_execution(
    postgres: str, code: str, kind: str
) -> None:
    """I-38, I-47: with another kind, the execution would be set aside."""
    database = Postgres(postgres)
    raising = f"DO $$ BEGIN RAISE 'no room' USING ERRCODE = '{code}'; END $$"

    with pytest.raises(StoreError) as refused:
        await database.fetch(raising)

    assert refused.value.kind == kind
    assert not is_defect(refused.value)
    await database.close()


async def test_two_servers_may_start_at_once(postgres):
    databases = [Postgres(postgres) for _ in range(4)]
    stores = await asyncio.gather(*map(PostgresStore.open, databases))

    for store, database in zip(stores, databases, strict=True):
        assert list(await store.find()) == []
        await database.close()


async def test_installations_share_a_database_by_schema(postgres, facts):
    async with (
        opened(postgres, schema="one") as one,
        opened(postgres, schema="two") as two,
    ):
        await one.commit([facts.transition("x")])

        assert len(await one.find()) == 1
        assert list(await two.find()) == []
        for schema in ("one", "two"):
            connection = await asyncpg.connect(postgres)
            await connection.execute(f"DROP SCHEMA {schema} CASCADE")
            await connection.close()


async def test_tables_of_a_newer_version_are_left_alone(postgres):
    async with opened(postgres):
        connection = await asyncpg.connect(postgres)
        await connection.execute("INSERT INTO noetl.migration VALUES ('log', 9999)")
        await connection.close()

    with pytest.raises(StoreError, match="use a newer NoETL") as caught:
        async with opened(postgres):
            pass

    assert caught.value.kind == "store.version"


@pytest.mark.spec("EVT-01")
@pytest.mark.parametrize(
    "sql",
    [
        "UPDATE noetl.batch SET body = 'forged'",
        "DELETE FROM noetl.batch",
        "TRUNCATE noetl.event",
    ],
)
async def test_the_log_cannot_be_changed(postgres, facts, sql):
    async with opened(postgres) as store:
        await store.commit([facts.transition("x")])
        connection = await asyncpg.connect(postgres)

        with pytest.raises(asyncpg.PostgresError, match="append-only"):
            await connection.execute(sql)

        await connection.close()
        assert await store.verify("x") is None


async def test_a_database_that_is_not_there_is_said(postgres):
    with pytest.raises(StoreError, match="does not answer") as caught:
        async with opened("postgresql://nobody@127.0.0.1:1/nothing"):
            pass

    assert caught.value.kind == "store.unreachable"


async def test_a_wrong_password_is_not_shown(postgres):
    wrong = "postgresql://postgres:wrong-secret@" + postgres.partition("@")[2]

    with pytest.raises(StoreError) as caught:
        async with opened(wrong):
            pass

    assert "wrong-secret" not in str(caught.value)


@pytest.mark.spec("S-39")
async def test_a_command_that_is_due_in_a_pause_waits_for_its_end(postgres, facts):
    async with opened(postgres) as store:
        later = Command("x-1", "x", not_before=50.0)
        await store.commit([facts.transition("x", commands=[later])])
        await store.commit([facts.transition("x", 1, status="paused")])
        assert not await store.claim("w", pool="default", slots=1, now=60.0, ttl=1.0)

        await store.commit([facts.transition("x", 2)])

        assert await store.claim("w", pool="default", slots=1, now=60.0, ttl=1.0)


async def test_functions_may_return_something_else_than_in_an_earlier_version(
    postgres, facts
):
    async with opened(postgres):
        pass
    database = Postgres(postgres)
    for drop in ("DROP FUNCTION expire_leases", "DROP FUNCTION claim"):
        await database.fetch(drop)
    await database.fetch(
        "CREATE FUNCTION expire_leases(before double precision) RETURNS integer "
        "LANGUAGE sql AS 'SELECT 1'"
    )
    await database.close()

    async with opened(postgres) as store:
        await store.commit([facts.transition("x", commands=["x-1"])])
        await store.sweep(now=100.0)
        leases = await store.claim("w", pool="default", slots=1, now=1.0, ttl=1.0)

    assert [lease.command_id for lease in leases] == ["x-1"]


@pytest.mark.spec("S-68")
def test_a_commit_walks_over_nothing_that_only_waits(postgres: str) -> None:
    async def explain(connection: asyncpg.Connection) -> str:
        nothing: list[object] = [[]] * ARGUMENTS
        sql, values = statement(("steering", "timing", "counting"), nothing)
        await connection.execute(f"PREPARE one AS {sql}")
        given = ", ".join(["'{}'"] * len(values))
        rows = await connection.fetch(f"EXPLAIN EXECUTE one({given})")
        return "\n".join(row[0] for row in rows)

    async def plan() -> str:
        database = Postgres(postgres)  # its settings matter, so its connection does
        try:
            await PostgresStore.open(database)
            return await database.run(explain)
        finally:
            await database.close()

    found = asyncio.run(plan())

    # All that is open, also what is only not tidied up yet, would be walked over.
    looks = re.findall(r"(?:using|on) command_open.*\n\s*Index Cond: (.*)", found)
    assert looks
    assert all("execution = " in each for each in looks), found
    assert "Seq Scan on" not in found, found


@pytest.mark.spec("S-72")
async def test_a_listing_by_labels_walks_their_index(postgres, facts):
    async def explain(connection: asyncpg.Connection) -> str:
        async with connection.transaction():
            await connection.execute("SET LOCAL enable_seqscan = off")  # few rows
            given = ("team", "a", 9, None, [], [], 9)
            rows = await connection.fetch(f"EXPLAIN {SQL['find_by_labels']}", *given)
        return "\n".join(row[0] for row in rows)

    database = Postgres(postgres)
    try:
        store = await PostgresStore.open(database)
        await store.commit([facts.transition("x", labels={"team": "a"})])
        plan = await database.run(explain)
    finally:
        await database.close()

    assert "Index Only Scan Backward using label_pkey on label l" in plan
    assert "Sort" not in plan
