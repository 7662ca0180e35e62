"""Affinity of commands: one owner runs all commands with the same affinity."""

from __future__ import annotations

import asyncio

import pytest

from noetl.adapters.postgres import Postgres
from noetl.adapters.stores.postgres import PostgresStore
from noetl.ports import Command

TTL = 30.0


def iterations(execution_id, count, *, first=0):
    return [
        Command(f"{execution_id}-1/{n}", execution_id, affinity=f"{execution_id}-1")
        for n in range(first, first + count)
    ]


async def claim(store, owner, *, slots=9, now=0.0):
    leases = await store.claim(owner, pool="default", slots=slots, now=now, ttl=TTL)
    return [lease.command_id for lease in leases]


@pytest.mark.spec("LOOP-06")
async def test_who_has_one_of_them_gets_the_others(store, facts):
    await store.commit([facts.transition("x", commands=iterations("x", 4))])

    assert await claim(store, "w1", slots=1) == ["x-1/0"]
    assert await claim(store, "w2") == []
    assert await claim(store, "w1", slots=2) == ["x-1/1", "x-1/2"]


@pytest.mark.spec("LOOP-06")
async def test_what_is_planned_later_belongs_to_them(store, facts):
    await store.commit([facts.transition("x", commands=iterations("x", 1))])
    [lease] = await store.claim("w1", pool="default", slots=9, now=0.0, ttl=TTL)
    more = iterations("x", 2, first=1)
    done = {"leases": [lease], "done": [lease.command_id]}
    await store.commit([facts.transition("x", 1, commands=more, **done)])

    assert await claim(store, "w2") == []
    assert await claim(store, "w1") == ["x-1/1", "x-1/2"]


@pytest.mark.spec("LOOP-06", "S-68")
async def test_commands_with_affinity_to_another_worker_block_no_claim(store, facts):
    await store.commit([facts.transition("a", commands=iterations("a", 9))])
    assert await claim(store, "w1", slots=1) == ["a-1/0"]
    await store.commit([facts.transition("b", commands=["b-1"])])
    await store.commit([facts.transition("a", 1, commands=["a-2"])])

    assert await claim(store, "w2", slots=1) == ["b-1"]
    assert await claim(store, "w2", slots=1) == ["a-2"]
    assert await claim(store, "w2", slots=1) == []


@pytest.mark.spec("LOOP-06", "S-45")
async def test_after_the_death_of_their_owner_another_one_gets_all(store, facts):
    await store.commit([facts.transition("x", commands=iterations("x", 3))])
    await claim(store, "w1", slots=1)

    await store.sweep(now=TTL + 3)

    late = TTL + 3
    assert await claim(store, "w2", slots=1, now=late) == ["x-1/0"]
    assert await claim(store, "w1", now=late) == []
    assert await claim(store, "w2", now=late) == ["x-1/1", "x-1/2"]


@pytest.mark.spec("LOOP-06", "S-45")
async def test_a_beat_for_one_of_them_keeps_them_all(store, facts):
    await store.commit([facts.transition("x", commands=iterations("x", 3))])
    leases = await store.claim("w1", pool="default", slots=1, now=0.0, ttl=TTL)
    for now in (20.0, 40.0, 60.0):
        assert await store.renew(leases, now=now, ttl=TTL) == []
        await store.sweep(now=now)

    assert await claim(store, "w2", now=89.0) == []
    assert await claim(store, "w2", now=90.0) == ["x-1/1", "x-1/2"]


@pytest.mark.spec("LOOP-06", "S-45")
async def test_who_gives_its_leases_back_gives_the_rest_up(store, facts):
    await store.commit([facts.transition("x", commands=iterations("x", 3))])
    leases = await store.claim("w1", pool="default", slots=1, now=100.0, ttl=TTL)

    await store.renew(leases, now=0.0, ttl=TTL)
    await store.sweep(now=100.0)

    assert await claim(store, "w2", now=100.0) == ["x-1/0", "x-1/1", "x-1/2"]


@pytest.mark.spec("LOOP-06")
async def test_who_has_taken_none_of_them_for_long_is_not_waited_for(store, facts):
    await store.commit([facts.transition("x", commands=iterations("x", 1))])
    [lease] = await store.claim("w1", pool="default", slots=1, now=0.0, ttl=TTL)
    more = iterations("x", 1, first=1)
    done = {"leases": [lease], "done": [lease.command_id]}
    await store.commit([facts.transition("x", 1, commands=more, **done)])

    assert await claim(store, "w2", now=TTL - 1) == []
    assert await claim(store, "w2", now=TTL) == ["x-1/1"]


@pytest.mark.spec("LOOP-06")
async def test_two_servers_never_give_them_to_two_owners(postgres, facts):
    databases = [Postgres(postgres), Postgres(postgres)]
    stores = [await PostgresStore.open(each) for each in databases]
    try:
        names = [f"x{number}" for number in range(20)]
        for name in names:
            begun = facts.transition(name, commands=iterations(name, 5))
            await stores[0].commit([begun])

        rounds = await asyncio.gather(
            *(
                store.claim(f"w{turn}", pool="default", slots=7, now=1.0, ttl=TTL)
                for turn in range(10)
                for store in stores
            )
        )
        for turn in range(10):
            owner = f"w{turn}"
            rounds.append(
                await stores[0].claim(owner, pool="default", slots=99, now=1.0, ttl=TTL)
            )

        owners: dict[str, set[str]] = {}
        for lease in [lease for leases in rounds for lease in leases]:
            owners.setdefault(lease.execution_id, set()).add(lease.owner)
        assert sorted(owners) == sorted(names)
        assert {len(each) for each in owners.values()} == {1}
        assert sum(map(len, rounds)) == 100
    finally:
        for database in databases:
            await database.close()
