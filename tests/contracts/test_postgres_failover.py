"""A database whose primary changes, or takes no writes for a while (I-06, I-47)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import asyncpg
import pytest
from replicas import POOLER, Pair, pooled, replicated

from noetl.adapters.postgres import Postgres
from noetl.adapters.stores.postgres import PostgresStore, group_commit
from noetl.errors import StoreError


@pytest.fixture
def pair() -> Iterator[Pair]:
    with replicated() as found:
        yield found


async def change(address: str, *statements: str) -> None:
    connection = await asyncpg.connect(
        address, server_settings={"default_transaction_read_only": "off"}
    )
    for each in statements:
        await connection.execute(each)
    await connection.close()


async def test_a_commit_finds_the_new_primary(pair: Pair, facts: Any) -> None:
    await change(
        pair.address_of(pair.primary),
        "ALTER SYSTEM SET synchronous_standby_names = '*'",
        "SELECT pg_reload_conf()",
    )
    database = Postgres(pair.address)
    store = await PostgresStore.open(database)
    await store.commit([facts.transition("a", 0)])
    await change(
        pair.address_of(pair.standby),
        "ALTER SYSTEM RESET synchronous_standby_names",
    )

    pair.primary.stop()
    late = asyncio.create_task(store.commit([facts.transition("b", 0)]))
    await change(pair.address_of(pair.standby), "SELECT pg_promote()")
    await late

    assert [each.execution_id for each in await store.find()] == ["b", "a"]
    assert await store.verify("a") is None
    await store.check_writable()
    await database.close()


async def test_a_commit_waits_for_a_node_that_takes_writes(
    postgres: str, facts: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = Postgres(postgres)
    store = await PostgresStore.open(database)
    await store.commit([facts.transition("a", 0)])
    demoted = "ALTER SYSTEM SET default_transaction_read_only = on"
    await change(postgres, demoted, "SELECT pg_reload_conf()", "SELECT pg_sleep(0.1)")
    tried = asyncio.Event()
    run = database.run

    async def watched(work: Any) -> Any:
        try:
            return await run(work)
        except StoreError:
            tried.set()
            raise

    monkeypatch.setattr(database, "run", watched)

    with pytest.raises(StoreError, match="takes no writes") as refused:
        await store.check_writable()
    tried.clear()
    commit = asyncio.create_task(store.commit([facts.transition("b", 0)]))
    await tried.wait()
    reset = "ALTER SYSTEM RESET default_transaction_read_only"
    await change(postgres, reset, "SELECT pg_reload_conf()")
    await commit

    assert refused.value.kind == "store.unreachable"
    assert [each.execution_id for each in await store.find()] == ["b", "a"]
    assert await store.verify("b") is None
    await database.close()


def test_waits_for_a_database_bridge_an_election() -> None:
    assert sum(group_commit.PATIENCE) > 15


needs_pooler = pytest.mark.skipif(POOLER is None, reason="PgBouncer is not installed")


@needs_pooler
@pytest.mark.parametrize("mode", ["session", "transaction"])
async def test_a_store_works_behind_a_pooler(
    postgres: str, facts: Any, mode: str
) -> None:
    with pooled(postgres, mode) as address:
        database = Postgres(address)
        store = await PostgresStore.open(database)
        await store.commit([facts.transition("a", 0)])

        assert [each.execution_id for each in await store.find()] == ["a"]
        await store.check_writable()
        await database.close()


@needs_pooler
async def test_servers_share_the_sessions_of_a_pooler_that_others_change(
    postgres: str, facts: Any
) -> None:
    with pooled(postgres, "transaction") as address:
        databases = Postgres(address), Postgres(address)
        stores = [await PostgresStore.open(each) for each in databases]
        other = await asyncpg.connect(address)
        await other.execute("SET search_path = pg_catalog; SET statement_timeout = 1")
        await other.close()
        names = [f"{number:02}" for number in range(40)]

        async def use(store: PostgresStore, name: str) -> None:
            await store.commit([facts.transition(name, 0)])
            assert await store.verify(name) is None
            assert (await store.records(name)).summary.execution_id == name

        async with asyncio.TaskGroup() as tasks:
            for index, name in enumerate(names):
                tasks.create_task(use(stores[index % 2], name))

        with pytest.raises(StoreError):
            await stores[0].commit([facts.transition(name, 0) for name in ("x", "00")])
        found = [each.execution_id for each in await stores[0].find()]
        assert sorted(found) == names
        for each in databases:
            await each.close()


async def test_a_statement_ends_at_its_limit(postgres: str) -> None:
    database = Postgres(postgres, timeout=0.01)

    with pytest.raises(StoreError, match=r"after 0.01 s .*DATABASE_TIMEOUT") as slow:
        await database.fetch("SELECT pg_sleep(60)")

    assert slow.value.kind == "store.unreachable"
    assert await database.fetch("SELECT 1") == [(1,)]
    await database.close()


async def test_a_database_that_is_silent_loses_its_connection(
    postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("noetl.adapters.postgres.ANSWER_S", 0.02)
    database = Postgres(postgres, timeout=0.02)

    async def hang(connection: Any) -> None:
        await connection.execute("SET statement_timeout = 0")
        await connection.fetch("SELECT pg_sleep(60)")

    with pytest.raises(StoreError, match="does not answer") as silent:
        await database.run(hang)

    assert silent.value.kind == "store.unreachable"
    await database.close()
