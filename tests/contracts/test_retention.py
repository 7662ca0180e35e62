"""Removal of finished executions, on every store that removes any."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import asyncpg
import msgspec
import pytest

from noetl.adapters.postgres import Postgres
from noetl.adapters.stores.postgres import PostgresStore
from noetl.adapters.stores.postgres.retention import PostgresRetention
from noetl.adapters.stores.sqlite import SqliteStore
from noetl.errors import StoreError
from noetl.ports import Removal, Timer
from noetl.ports.retention import Refused

END = "2026-11-15T08:00:01.000000Z"


class World:
    def __init__(self, store: Any, retention: Any, facts: Any) -> None:
        self.store, self.retention, self.facts = store, retention, facts

    async def end(self, name: str, **more: Any) -> None:
        """Store an execution that is over: ``parent_id``, ``forked_from``, …"""
        await self.store.commit([self.over(name, **more)])

    def over(self, name: str, timers: Any = (), key: Any = None, **more: Any) -> Any:
        made = self.facts.transition(
            name, status="completed", timers=timers, request_key=key
        )
        summary = msgspec.structs.replace(made.summary, finished_at=END, **more)
        return msgspec.structs.replace(made, summary=summary)

    async def families(self, **given: Any) -> list[tuple[list[str], bool, bool]]:
        return [
            (
                [each.summary.execution_id for each in family.members],
                family.held,
                family.more,
            )
            for family in await self.retention.families(**given)
        ]

    async def names(self) -> set[str]:
        return {each.execution_id for each in await self.store.find()}


@pytest.fixture(params=["sqlite", "postgres"])
def world(request: Any, tmp_path: Path, facts: Any, run: Any) -> Iterator[World]:
    if request.param == "sqlite":
        store = SqliteStore.open(tmp_path / "log.db")
        yield World(store, store.retention, facts)
        run(store.close())
    else:
        database = Postgres(request.getfixturevalue("postgres"))
        opened = run(PostgresStore.open(database))
        yield World(opened, PostgresRetention(database), facts)
        run(database.close())


async def test_families_are_listed_together_and_in_order(world):
    await world.end("a")
    await world.end("b")
    await world.end("a-child", parent_id="a")
    await world.end("a-grandchild", parent_id="a-child")

    assert await world.families() == [
        (["a-grandchild", "a-child", "a"], False, False),
        (["b"], False, False),
    ]
    [first] = await world.retention.families(limit=1)
    assert await world.families(after=first.number) == [(["b"], False, False)]


async def test_a_large_family_is_listed_in_parts_the_newest_first(world, monkeypatch):
    for module in ("sqlite", "postgres"):
        path = f"noetl.adapters.stores.{module}.retention.MAX_MEMBERS"
        monkeypatch.setattr(path, 2)
    await world.end("a")
    for child in ("b", "c", "d"):
        await world.end(child, parent_id="a")

    [family] = await world.retention.families()
    rest = await world.retention.kin(
        family.number, before=family.members[1].number, limit=2
    )

    assert await world.families() == [(["d", "c", "a"], False, True)]
    assert [each.summary.execution_id for each in rest.members] == ["b"]
    assert not rest.more


async def test_a_family_is_held_by_its_timers_and_by_forks_elsewhere(world):
    await world.end("told", timers=[Timer("told", "finished", 0.0, "finished")])
    await world.end("origin")
    await world.end("fork", forked_from={"execution_id": "origin", "seq": 1})
    await world.end("stray", forked_from={"execution_id": "elsewhere", "seq": 1})

    assert [held for _, held, _ in await world.families()] == [
        *(True, True, False, False)
    ]


async def test_a_planned_removal_is_carried_out_once(world):
    for name in ("a", "b", "c"):
        await world.end(name, key=f"key-{name}")
    removal = Removal("one", ["a", "b"])
    assert await world.retention.take_turn("me", now=0.0, ttl=10.0) is None
    await world.retention.plan("me", removal)

    again = await world.retention.take_turn("other", now=11.0, ttl=10.0)
    await world.retention.carry_out("other", removal)
    await world.retention.carry_out("other", removal)
    still = await world.retention.take_turn("other", now=12.0, ttl=10.0)
    await world.retention.plan("other", None)

    assert again == still == removal
    assert await world.names() == {"c"}
    assert await world.retention.take_turn("other", now=12.0, ttl=10.0) is None
    assert await world.store.find_request("key-a") is None
    assert await world.store.verify("c") is None


async def test_one_owner_at_a_time_has_the_turn(world):
    await world.end("a")
    removal = Removal("one", ["a"])
    await world.retention.take_turn("me", now=0.0, ttl=10.0)
    early = await world.retention.take_turn("other", now=9.0, ttl=10.0)
    await world.retention.take_turn("other", now=10.0, ttl=10.0)

    assert early == Refused()
    for late in (
        world.retention.plan("me", removal),
        world.retention.carry_out("me", removal),
    ):
        with pytest.raises(StoreError) as refusal:
            await late
        assert refusal.value.kind == "store.conflict"
    assert await world.names() == {"a"}


async def test_a_removal_that_is_refused_leaves_everything_and_its_plan(world):
    await world.end("a")
    await world.end("b", forked_from={"execution_id": "a", "seq": 1})
    await world.store.commit([world.facts.transition("open")])
    await world.retention.take_turn("me", now=0.0, ttl=10.0)
    for names in (["a"], ["b", "open"]):
        removal = Removal("wrong", names)
        await world.retention.plan("me", removal)
        with pytest.raises(StoreError) as refusal:
            await world.retention.carry_out("me", removal)

        assert refusal.value.kind == "store.conflict"
        assert await world.retention.take_turn("me", now=1.0, ttl=10.0) == removal
    assert await world.names() == {"a", "b", "open"}
    await world.retention.carry_out("me", Removal("right", ["b", "a"]))
    assert await world.names() == {"open"}


async def test_playbooks_tell_how_long_their_executions_are_kept(world):
    about = {"name": "orders", "sha256": "0" * 64, "source": "1" * 64}
    for name, own in (("a", "1d"), ("b", "1d"), ("c", "90d")):
        await world.end(name, playbook={**about, "retention": own})
    await world.end("d", playbook=about)

    assert sorted(await world.retention.own_durations()) == ["1d", "90d"]


async def test_a_fork_that_begins_during_the_removal_of_its_origin_waits(
    postgres, facts
):
    """Either the fork is stored and its origin stays, or none of the fork is."""
    database = Postgres(postgres)
    store = await PostgresStore.open(database)
    world = World(store, PostgresRetention(database), facts)
    await world.end("a")
    remover = await asyncpg.connect(postgres, server_settings={"search_path": "noetl"})
    try:
        async with remover.transaction():
            await remover.execute("SELECT remove_executions(ARRAY['a'])")
            at = {"execution_id": "a", "seq": 1}
            waiting = asyncio.ensure_future(world.end("b", forked_from=at))
            pool = asyncpg.create_pool(postgres, min_size=1)
            async with asyncio.timeout(30), pool as watch:
                while not await watch.fetchval(
                    "SELECT count(*) FROM pg_locks WHERE NOT granted"
                ):
                    pass
        with pytest.raises(StoreError):
            await waiting
        assert await world.names() == set()
    finally:
        await remover.close()
        await database.close()


def parts_of(rows: Any) -> list[str]:
    return sorted(row[0] for row in rows)


async def test_an_empty_partition_is_dropped_and_no_other(postgres, facts):
    database = Postgres(postgres)
    store = await PostgresStore.open(database)
    retention = PostgresRetention(database)
    world = World(store, retention, facts)
    connection = await asyncpg.connect(
        postgres, server_settings={"search_path": "noetl"}
    )
    parts = (
        "SELECT inhrelid::regclass::text FROM pg_inherits "
        "WHERE inhparent = 'batch'::regclass"
    )

    async def jump(number: int) -> None:
        name = "pg_get_serial_sequence('execution', 'number')"
        await connection.execute(f"SELECT setval({name}, {number}, false)")
        await connection.execute("SELECT add_partitions()")

    try:
        await world.end("a")
        await jump(150_000)
        await world.end("b")
        await jump(210_000)
        await world.end("c")
        await connection.execute("SELECT remove_executions(ARRAY['a'])")

        assert await retention.free_space() == 1
        assert await retention.free_space() == 0
        left = parts_of(await connection.fetch(parts))
        assert "batch_0" not in left
        assert {"batch_100000", "batch_200000"} <= set(left)
        assert await store.verify("b") is None
        await store.sweep(now=1e9)
        assert "batch_0" not in parts_of(await connection.fetch(parts))
    finally:
        await connection.close()
        await database.close()
