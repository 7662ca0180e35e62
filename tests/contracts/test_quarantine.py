"""``ExecutionIndex.set_status``: quarantine an execution, and release it."""

from __future__ import annotations

import msgspec
import pytest

from noetl.errors import SetAside, StoreError

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


async def test_its_leases_end(store, facts, aside):
    await store.commit([facts.transition("x", commands=["x-1"])])
    leases = await store.claim("w1", pool="default", slots=1, now=100.0, ttl=30.0)
    await store.set_status(aside)

    assert list(await store.renew(leases, now=101.0, ttl=30.0)) == list(leases)
    assert not (await store.commands(["x-1"]))["x-1"].held


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
