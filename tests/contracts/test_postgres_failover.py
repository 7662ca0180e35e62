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


@pytest.mark.skipif(POOLER is None, reason="PgBouncer is not installed")
async def test_a_store_works_behind_a_pooler(postgres: str, facts: Any) -> None:
    with pooled(postgres) as address:
        database = Postgres(address)
        store = await PostgresStore.open(database)
        await store.commit([facts.transition("a", 0)])

        assert [each.execution_id for each in await store.find()] == ["a"]
        await store.check_writable()
        await database.close()
