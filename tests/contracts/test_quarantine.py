"""``ExecutionIndex.set_status``: quarantine an execution, and release it."""

from __future__ import annotations

import msgspec
import pytest

from noetl.errors import LeaseLost, SetAside, StoreError
from noetl.ports import CallLimit

pytestmark = pytest.mark.spec("S-62")

WHY = {"kind": "execution.quarantined", "message": "it is set aside: why"}


@pytest.fixture
def aside(facts):
    """The line of an execution in quarantine."""
    return msgspec.structs.replace(facts.summary("x", "quarantined"), error=WHY)


async def claimed(store):
    leases = await store.claim("w1", pool="default", slots=9, now=100.0, ttl=30.0)
    return [lease.command_id for lease in leases]


async def test_what_is_set_aside_is_listed_as_that(store, facts, aside):
    await store.commit([facts.transition("x"), facts.transition("y")])
    await store.set_status(aside)

    assert [each.error for each in await store.find(status="quarantined")] == [WHY]
    assert (await store.summary("x")).status == "quarantined"
    assert [each.execution_id for each in await store.find(status="running")] == ["y"]
    assert len(await store.read("x")) == 1


async def test_nothing_of_it_is_offered_and_nothing_is_due(store, facts, aside):
    await store.commit([facts.transition("x", commands=["x-1"], timers={"t": 50.0})])
    await store.commit([facts.transition("y", commands=["y-1"])])
    await store.set_status(aside)

    assert await claimed(store) == ["y-1"]
    assert list(await store.sweep(now=100.0)) == []


async def lease_and_set_aside(store, facts, aside):
    """Return the lease of a tool that runs while its execution is set aside."""
    await store.commit([facts.transition("x", commands=["x-1"])])
    leases = await store.claim("w1", pool="default", slots=1, now=100.0, ttl=30.0)
    await store.set_status(aside)
    return list(leases)


async def test_its_leases_are_not_renewed(store, facts, aside):
    leases = await lease_and_set_aside(store, facts, aside)

    assert list(await store.renew(leases, now=101.0, ttl=30.0)) == leases
    with pytest.raises(LeaseLost):
        await store.permit(leases[0], [CallLimit("k")], now=101.0)


async def test_taken_back_its_commands_wait_for_the_end_of_their_leases(
    store, facts, aside
):
    """The tool may still run: its worker has not been told."""
    leases = await lease_and_set_aside(store, facts, aside)
    await store.set_status(facts.summary("x"))

    await store.sweep(now=131.0)
    assert await claimed(store) == []
    await store.sweep(now=132.1)
    [again] = await store.claim("w2", pool="default", slots=1, now=132.1, ttl=30.0)
    assert (again.command_id, again.epoch) == ("x-1", leases[0].epoch + 1)


async def test_leases_that_expire_in_quarantine_are_not_offered_in_it(
    store, facts, aside
):
    await lease_and_set_aside(store, facts, aside)

    await store.sweep(now=200.0)
    assert await claimed(store) == []
    await store.set_status(facts.summary("x"))
    assert await claimed(store) == ["x-1"]


async def test_taken_back_in_time_a_worker_keeps_its_lease(store, facts, aside):
    leases = await lease_and_set_aside(store, facts, aside)
    await store.set_status(facts.summary("x"))

    assert list(await store.renew(leases, now=101.0, ttl=30.0)) == []
    await store.commit([facts.transition("x", 1, leases=leases)])
    assert len(await store.read("x")) == 2


async def test_nothing_is_recorded_of_it(store, facts, aside):
    await store.commit([facts.transition("x")])
    await store.set_status(aside)

    with pytest.raises(SetAside, match="x is set aside"):
        await store.commit([facts.transition("x", 1)])
    assert len(await store.read("x")) == 1


async def test_taken_back_it_goes_on(store, facts, aside):
    await store.commit([facts.transition("x", commands=["x-1"], timers={"t": 50.0})])
    await store.set_status(aside)
    await store.set_status(facts.summary("x"))

    assert await claimed(store) == ["x-1"]
    assert [timer.timer_id for timer in await store.sweep(now=100.0)] == ["t"]
    await store.commit([facts.transition("x", 1)])
    assert (await store.summary("x")).error is None


async def test_what_is_over_is_never_set_aside(store, facts, aside):
    await store.commit([facts.transition("x", status="completed")])
    await store.set_status(aside)

    assert (await store.summary("x")).status == "completed"


async def test_what_is_not_there_cannot_be_set_aside(store, aside):
    with pytest.raises(StoreError, match="there is no execution x"):
        await store.set_status(aside)
