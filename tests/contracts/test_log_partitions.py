"""Partitions of the log in PostgreSQL: made before executions need them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import asyncpg
import pytest

from noetl.adapters.database_roles import prepare_database
from noetl.adapters.postgres import Postgres
from noetl.adapters.stores.postgres import PostgresStore
from noetl.adapters.stores.postgres.store import LOOK_AHEAD_EVERY_S

SERVER, PASSWORD = "part_writer", "s3cret"
SETTINGS = {"search_path": "noetl"}


@contextlib.asynccontextmanager
async def opened(address: str) -> AsyncIterator[PostgresStore]:
    database = Postgres(address)
    try:
        yield await PostgresStore.open(database)
    finally:
        await database.close()


@contextlib.asynccontextmanager
async def connected(address: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(address, server_settings=SETTINGS)
    try:
        yield connection
    finally:
        await connection.close()


async def fetch(address: str, sql: str) -> list[Any]:
    async with connected(address) as connection:
        return [row[0] for row in await connection.fetch(sql)]


async def partitions(address: str) -> list[int]:
    """Return where the partitions begin, but for the one that takes the rest."""
    found = await fetch(
        address,
        "SELECT inhrelid::regclass::text FROM pg_inherits "
        "WHERE inhparent = 'batch'::regclass",
    )
    return sorted(int(name.partition("_")[2]) for name in set(found) - {"batch_rest"})


async def part_of(address: str, name: str) -> str:
    [found] = await fetch(
        address,
        "SELECT DISTINCT b.tableoid::regclass::text FROM batch AS b "
        f"JOIN execution AS x ON x.number = b.execution WHERE execution_id = '{name}'",
    )
    return str(found)


async def jump(address: str, number: int) -> None:
    """Let the next execution have this number."""
    name = "pg_get_serial_sequence('execution', 'number')"
    await fetch(address, f"SELECT setval({name}, {number}, false)")


async def test_a_server_makes_partitions_before_they_are_needed(postgres, facts):
    async with opened(postgres) as store:
        at_first = await partitions(postgres)
        await jump(postgres, 250_000)
        await store.commit([facts.transition("a")])
        await store.sweep(now=1_000.0)
        await jump(postgres, 460_000)
        await store.commit([facts.transition("b")])

        assert at_first == [0, 100_000, 200_000]
        assert await part_of(postgres, "a") == "batch_200000"
        assert await partitions(postgres) == [0, 100_000, 200_000, 300_000, 400_000]
        assert await part_of(postgres, "b") == "batch_400000"
        for name in ("a", "b"):
            assert len(await store.read(name)) == 1
            assert await store.verify(name) is None


async def test_a_server_looks_ahead_once_in_a_while(postgres, facts):
    async with opened(postgres) as store:
        await store.sweep(now=1_000.0)
        await jump(postgres, 250_000)
        await store.commit([facts.transition("a")])

        await store.sweep(now=999.0 + LOOK_AHEAD_EVERY_S)
        before = await partitions(postgres)
        await store.sweep(now=1_000.0 + LOOK_AHEAD_EVERY_S)

        assert before == [0, 100_000, 200_000]
        assert await partitions(postgres) == [*before, 300_000, 400_000]


async def test_servers_may_look_ahead_at_once(postgres, facts):
    async with opened(postgres) as one, opened(postgres) as other:
        for start in range(250_000, 1_300_000, 200_000):
            await jump(postgres, start)
            await one.commit([facts.transition(f"x{start}")])
            now = float(start)
            await asyncio.gather(
                *(store.sweep(now=now) for store in (one, other)),
                *(one.commit([facts.transition(f"y{start}-{n}")]) for n in range(20)),
            )
            await other.sweep(now=now + LOOK_AHEAD_EVERY_S)

            place = start // 100_000 * 100_000
            last = [place, place + 100_000, place + 200_000]
            assert (await partitions(postgres))[-3:] == last


async def test_a_long_reading_does_not_hold_up_the_server(postgres, facts):
    """A dump holds the whole log for hours: partitions wait for it, commits do not."""
    async with opened(postgres) as store, connected(postgres) as reader:
        await jump(postgres, 250_000)
        await store.commit([facts.transition("a")])
        async with reader.transaction():
            await reader.fetch("SELECT count(*) FROM batch")
            await asyncio.gather(
                store.sweep(now=1_000.0),
                *(store.commit([facts.transition(f"b{n}")]) for n in range(5)),
            )
            meanwhile = await partitions(postgres)
        await store.sweep(now=1_000.0 + LOOK_AHEAD_EVERY_S)

        assert meanwhile == [0, 100_000, 200_000]
        assert await partitions(postgres) == [*meanwhile, 300_000, 400_000]
        assert await fetch(postgres, "SHOW lock_timeout") == ["0"]


async def test_rows_that_found_no_partition_stay_where_they_are(postgres, facts):
    """No server has looked ahead for long: their span gets no partition any more."""
    async with opened(postgres) as store:
        await jump(postgres, 730_000)
        await store.commit([facts.transition("a")])
        await store.sweep(now=1_000.0)
        made = await partitions(postgres)
        await store.commit([facts.transition("a", 1), facts.transition("b")])
        await jump(postgres, 800_000)
        await store.commit([facts.transition("c")])

        assert made == [0, 100_000, 200_000, 800_000, 900_000]
        assert await part_of(postgres, "a") == "batch_rest"
        assert await part_of(postgres, "b") == "batch_rest"
        assert await part_of(postgres, "c") == "batch_800000"
        for name in ("a", "b", "c"):
            assert await store.verify(name) is None


@pytest.fixture
def server(postgres: str) -> Iterator[str]:
    """The address of a role that may not make tables."""
    role = f"CREATE ROLE {SERVER} LOGIN PASSWORD '{PASSWORD}' NOSUPERUSER"
    asyncio.run(fetch(postgres, role))
    address = postgres.replace(
        postgres.split("//")[1].split("@")[0], f"{SERVER}:{PASSWORD}"
    )
    asyncio.run(prepare_database(postgres, address))
    yield address
    asyncio.run(fetch(postgres, f"DROP OWNED BY {SERVER} CASCADE"))
    asyncio.run(fetch(postgres, f"DROP ROLE {SERVER}"))


DENIED = [
    "UPDATE batch_400000 SET body = ''",
    "DELETE FROM batch_400000",
    "TRUNCATE batch_400000",
    "DROP TABLE batch_400000",
    "ALTER TABLE batch DETACH PARTITION batch_400000",
    "CREATE TABLE batch_500000 PARTITION OF batch FOR VALUES FROM (500000) TO (600000)",
]


async def test_a_role_without_tables_makes_partitions_that_are_guarded(
    postgres, server, facts
):
    async with opened(server) as store:
        await jump(postgres, 250_000)
        await store.commit([facts.transition("a")])
        await store.sweep(now=1_000.0)
        await jump(postgres, 410_000)
        await store.commit([facts.transition("b")])

        assert await part_of(postgres, "b") == "batch_400000"
        assert await store.verify("b") is None
        for statement in DENIED:
            with pytest.raises(asyncpg.InsufficientPrivilegeError):
                await fetch(server, statement)
        for statement in DENIED[:3]:
            with pytest.raises(asyncpg.RaiseError, match="append-only"):
                await fetch(postgres, statement)


async def test_an_execution_is_removed_from_its_partition(postgres, server, facts):
    async with opened(server) as store:
        await jump(postgres, 150_000)
        for name in ("a", "b"):
            await store.commit([facts.transition(name, status="completed")])
        await fetch(server, "SELECT remove_executions(ARRAY['a'])")

        assert await fetch(postgres, "SELECT count(*) FROM batch_100000") == [1]
        assert await store.read("a") == []
        assert await store.verify("b") is None
