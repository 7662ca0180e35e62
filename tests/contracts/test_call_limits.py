"""Rates and slots of calls: one decision of the store for all of its workers."""

from __future__ import annotations

from itertools import pairwise

import pytest
from store_calls import claim

from noetl.errors import LeaseLost
from noetl.ports import CallLimit

pytestmark = pytest.mark.spec("S-78")

RATE = CallLimit("api", interval=0.2)
SLOTS = CallLimit("api-slots", limit=2)


async def leases(store, facts, count):
    names = [f"x-{n}" for n in range(count)]
    await store.commit([facts.transition("x", commands=names)])
    return await claim(store, count)


async def test_calls_of_a_rate_are_spread_over_every_period(store, facts):
    [lease] = await leases(store, facts, 1)
    asked = [100.0 + n / 50 for n in range(150)]

    calls = [at for at in asked if not await store.permit(lease, [RATE], now=at)]

    assert len(calls) == 15
    gaps = [later - call for call, later in pairwise(calls)]
    assert min(gaps) >= 0.2 - 1e-6


async def test_a_burst_passes_at_once_and_must_be_earned_again(store, facts):
    [lease] = await leases(store, facts, 1)
    rate = CallLimit("api", interval=1.0, burst=3)

    async def permitted(now):
        return [await store.permit(lease, [rate], now=now) for _ in range(5)].count(0)

    assert [await permitted(at) for at in (100.0, 100.5, 101.0, 102.0)] == [3, 0, 1, 1]
    assert await permitted(200.0) == 3


async def test_refused_calls_may_ask_again_at_different_times(store, facts):
    held = await leases(store, facts, 4)

    told = [await store.permit(each, [RATE], now=100.0) for each in held]

    assert told == [0, *map(pytest.approx, (100.2, 100.4, 100.6))]


async def test_a_line_of_cancelled_calls_does_not_delay_later_ones(store, facts):
    [lease] = await leases(store, facts, 1)
    rate = CallLimit("api", interval=1.0)

    told = [await store.permit(lease, [rate], now=100.0) for _ in range(100)]

    assert max(told) <= 131.0
    assert await store.permit(lease, [rate], now=101.5) == 0


async def test_keys_are_limited_apart(store, facts):
    [lease] = await leases(store, facts, 1)
    await store.permit(lease, [RATE], now=100.0)

    assert await store.permit(lease, [CallLimit("b", interval=9.0)], now=100.0) == 0


async def test_slots_are_held_until_the_next_question_of_the_lease(store, facts):
    first, second, third = await leases(store, facts, 3)

    answers = [await store.permit(e, [SLOTS], now=100.0) for e in (first, second)]
    refused = await store.permit(third, [SLOTS], now=100.0)
    await store.permit(first, [], now=100.0)

    assert answers == [0, 0]
    assert 100.0 < refused <= 131.0
    assert await store.permit(third, [SLOTS], now=100.1) == 0
    assert await store.permit(first, [SLOTS], now=100.1) > 0


async def test_a_slot_ends_with_the_command(store, facts):
    held = await leases(store, facts, 3)
    for each in held[:2]:
        await store.permit(each, [SLOTS], now=100.0)

    ended = facts.transition("x", 1, leases=[held[0]], done=[held[0].command_id])
    await store.commit([ended])

    assert await store.permit(held[2], [SLOTS], now=100.0) == 0


async def test_a_slot_of_a_lost_worker_ends_with_its_lease(store, facts):
    held = await leases(store, facts, 3)
    for each in held[:2]:
        await store.permit(each, [SLOTS], now=100.0)
    await store.renew(held[1:], now=120.0, ttl=30.0)

    assert await store.permit(held[2], [SLOTS], now=120.0) > 0
    await store.sweep(now=133.0)

    assert await store.permit(held[2], [SLOTS], now=133.0) == 0
    with pytest.raises(LeaseLost):
        await store.permit(held[0], [SLOTS], now=133.0)


async def test_a_call_refused_by_one_limit_takes_nothing_of_the_other(store, facts):
    first, second, third = await leases(store, facts, 3)
    one = CallLimit("one", limit=1)
    await store.permit(first, [one], now=100.0)

    assert await store.permit(second, [RATE, one], now=100.0) > 0
    assert await store.permit(third, [RATE], now=100.0) == 0
