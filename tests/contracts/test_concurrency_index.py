"""The concurrency index: slots of a key, and the executions that wait for one."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

from noetl.adapters.postgres import Postgres
from noetl.adapters.stores.postgres import PostgresStore
from noetl.adapters.stores.sqlite import SqliteStore
from noetl.errors import LogConflict, NoPlace, RequestKnown, StoreError
from noetl.ports import ConcurrencySlot, Store

pytestmark = pytest.mark.spec("S-36", "S-64")


async def take(
    store: Store, facts: Any, name: str, limit: int = 1, **more: Any
) -> None:
    slot = ConcurrencySlot("eu", limit)
    await store.commit([facts.transition(name, slot=slot, **more)])


async def wait(store: Store, facts: Any, name: str, limit: int = 1) -> None:
    slot = ConcurrencySlot("eu", limit, queued=True)
    await store.commit([facts.transition(name, slot=slot, status="waiting")])


async def go(store: Store, facts: Any, name: str, limit: int = 1) -> None:
    """Take a slot after waiting for it."""
    slot, done = ConcurrencySlot("eu", limit), ["place"]
    await store.commit([facts.transition(name, 1, slot=slot, disarm=done)])


async def end(store: Store, facts: Any, name: str, after: int = 1) -> None:
    slot = ConcurrencySlot("eu", 1)
    last = facts.transition(name, after, status="completed", slot=slot)
    await store.commit([last])


async def told(store: Store) -> list[str]:
    due = await store.sweep(now=100.0)
    return [timer.execution_id for timer in due if timer.kind == "place"]


async def line(store: Store) -> list[tuple[str, bool]]:
    return [(each.execution_id, each.queued) for each in await store.slots_of("eu")]


async def test_a_limit_is_a_limit(store, facts):
    await take(store, facts, "x1", 2)
    await take(store, facts, "x2", 2)

    with pytest.raises(NoPlace, match="'eu'"):
        await take(store, facts, "x3", 2)

    assert not await store.read("x3")
    assert await line(store) == [("x1", False), ("x2", False)]


async def test_keys_do_not_meet(store, facts):
    await take(store, facts, "x1")
    other = facts.transition("y1", slot=ConcurrencySlot("us", 1))

    await store.commit([other])

    assert [each.execution_id for each in await store.slots_of("us")] == ["y1"]


@pytest.mark.parametrize("status", ["running", "waiting", "paused", "quarantined"])
async def test_what_is_not_over_keeps_its_place(store, facts, status):
    await take(store, facts, "x1")
    await store.commit([facts.transition("x1", 1, status=status)])

    with pytest.raises(NoPlace):
        await take(store, facts, "x2")


@pytest.mark.parametrize("status", ["completed", "failed", "cancelled"])
async def test_any_server_that_records_the_end_frees_the_slot(store, facts, status):
    await take(store, facts, "x1")
    await store.commit([facts.transition("x1", 1, status=status)])  # says no place

    await take(store, facts, "x2")


async def test_an_end_tells_the_first_that_waits(store, facts):
    await take(store, facts, "x1")
    await wait(store, facts, "x2")
    await wait(store, facts, "x3")
    assert await told(store) == []

    await end(store, facts, "x1")

    assert await told(store) == ["x2"]
    assert await line(store) == [("x2", True), ("x3", True)]


async def test_those_that_wait_come_first_and_in_order(store, facts):
    await take(store, facts, "x1")
    await wait(store, facts, "x3")
    await wait(store, facts, "x2")
    await end(store, facts, "x1")

    with pytest.raises(NoPlace):
        await take(store, facts, "x4")
    with pytest.raises(NoPlace):
        await go(store, facts, "x2")
    await go(store, facts, "x3")

    assert await told(store) == []
    assert await line(store) == [("x3", False), ("x2", True)]


async def test_one_that_was_let_in_tells_the_next_if_there_is_room(store, facts):
    for name in ("x1", "x2"):
        await take(store, facts, name, 2)
    for name in ("x3", "x4", "x5"):
        await wait(store, facts, name, 2)
    await end(store, facts, "x1")
    await end(store, facts, "x2")

    await go(store, facts, "x3", 2)
    assert await told(store) == ["x4"]
    await go(store, facts, "x4", 2)

    assert await told(store) == []


async def test_an_execution_that_queues_while_there_is_room_is_notified_at_once(
    store, facts
):
    await wait(store, facts, "x1")  # the place was given back meanwhile

    assert await told(store) == ["x1"]


async def test_a_queued_execution_is_notified_again_while_there_is_room(store, facts):
    await take(store, facts, "x1")
    await wait(store, facts, "x2")
    await end(store, facts, "x1")
    slot = ConcurrencySlot("eu", 1, queued=True)

    await store.commit(
        [facts.transition("x2", 1, count=0, slot=slot, disarm=["place"])]
    )

    assert await told(store) == ["x2"]


async def test_the_queue_closes_up_when_its_first_is_cancelled(store, facts):
    await take(store, facts, "x1")
    await wait(store, facts, "x2")
    await wait(store, facts, "x3")
    await end(store, facts, "x1")
    gone = facts.transition("x2", 1, status="cancelled", slot=ConcurrencySlot("eu", 1))

    await store.commit([gone])

    assert await told(store) == ["x3"]


async def test_each_goes_by_its_own_limit(store, facts):
    await take(store, facts, "x1", 1)

    await take(store, facts, "x2", 2)

    with pytest.raises(NoPlace):
        await take(store, facts, "x3", 2)


async def test_who_has_a_place_may_say_so_again(store, facts):
    await take(store, facts, "x1")

    await store.commit([facts.transition("x1", 1, slot=ConcurrencySlot("eu", 1))])

    assert await line(store) == [("x1", False)]


async def test_of_many_at_once_no_more_than_the_limit_get_in(store, facts):
    names = [f"x{number}" for number in range(12)]

    starts = [take(store, facts, name, 3) for name in names]
    answers = await asyncio.gather(*starts, return_exceptions=True)

    assert sum(isinstance(answer, NoPlace) for answer in answers) == 9
    assert len(await line(store)) == 3


async def test_a_refusal_leaves_other_callers_alone(store, facts):
    await take(store, facts, "x1")

    answers = await asyncio.gather(
        take(store, facts, "x2"),
        store.commit([facts.transition("y1")]),
        store.commit([facts.transition("x1", 5, slot=ConcurrencySlot("us", 1))]),
        store.commit([facts.transition("z1", slot=ConcurrencySlot("us", 1))]),
        return_exceptions=True,
    )

    kinds = [type(answer) and isinstance(answer, Exception) for answer in answers]
    assert kinds == [True, False, True, False]
    assert isinstance(answers[0], NoPlace)
    assert isinstance(answers[2], LogConflict)


async def test_a_request_that_was_answered_takes_no_second_place(store, facts):
    await take(store, facts, "x1", 2, request_key="k")

    with pytest.raises(RequestKnown):
        await take(store, facts, "x2", 2, request_key="k")

    assert await line(store) == [("x1", False)]


async def test_a_group_cannot_take_two_places_of_one_key(store, facts):
    both = [facts.transition(n, slot=ConcurrencySlot("eu", 2)) for n in ("x1", "x2")]

    with pytest.raises(StoreError, match="once"):
        await store.commit(both)

    assert await line(store) == []


async def test_a_group_is_refused_whole(store, facts):
    await take(store, facts, "x1")
    second = facts.transition("x2", slot=ConcurrencySlot("eu", 1))
    pair = [facts.transition("y1"), second]

    with pytest.raises(NoPlace):
        await store.commit(pair)

    assert not await store.read("y1")


async def test_the_queue_outlives_the_process(tmp_path, facts):
    store = SqliteStore.open(tmp_path / "log.db")
    await take(store, facts, "x1")
    await wait(store, facts, "x2")
    await wait(store, facts, "x3")
    await store.close()

    store = SqliteStore.open(tmp_path / "log.db")
    assert await line(store) == [("x1", False), ("x2", True), ("x3", True)]
    await end(store, facts, "x1")
    assert await told(store) == ["x2"]
    await store.close()


@contextlib.asynccontextmanager
async def server_on(address: str) -> AsyncIterator[PostgresStore]:
    database = Postgres(address)
    try:
        yield await PostgresStore.open(database)
    finally:
        await database.close()


async def test_two_servers_together_keep_the_limit(postgres, facts):
    async with server_on(postgres) as one, server_on(postgres) as other:
        starts = [
            take((one, other)[number % 2], facts, f"x{number}", 3)
            for number in range(40)
        ]

        answers = await asyncio.gather(*starts, return_exceptions=True)

        assert sum(answer is None for answer in answers) == 3
        assert all(isinstance(each, NoPlace) for each in answers if each is not None)
        assert len(await line(one)) == 3


async def test_no_end_misses_who_comes_to_wait_at_another_server(postgres, facts):
    async with server_on(postgres) as one, server_on(postgres) as other:
        for number in range(20):
            first, second = f"a{number:02}", f"b{number:02}"
            await take(one, facts, first)
            await asyncio.gather(end(one, facts, first), wait(other, facts, second))

            assert await told(one) == [second]
            await go(other, facts, second)
            await end(one, facts, second, after=2)
