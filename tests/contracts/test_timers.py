"""Timers: armed and disarmed by transitions, due in order."""

from __future__ import annotations

import pytest

from noetl.ports import Timer

pytestmark = pytest.mark.spec("S-62")


@pytest.mark.spec("S-55")
async def test_due_timers_come_in_order(store, facts):
    await store.commit([facts.transition("x", timers={"late": 30.0, "soon": 10.0})])
    await store.commit([facts.transition("y", timers={"mid": 20.0, "far": 99.0})])

    due = await store.sweep(now=30.0)

    assert [(t.execution_id, t.timer_id, t.due_at, t.kind) for t in due] == [
        ("x", "soon", 10.0, "delay"),
        ("y", "mid", 20.0, "delay"),
        ("x", "late", 30.0, "delay"),
    ]


@pytest.mark.spec("S-55")
async def test_a_due_timer_stays_armed_until_it_is_disarmed(store, facts):
    await store.commit([facts.transition("x", timers={"t": 10.0})])
    assert len(await store.sweep(now=20.0)) == 1
    assert len(await store.sweep(now=20.0)) == 1

    await store.commit([facts.transition("x", 1, disarm=["t"])])

    assert list(await store.sweep(now=20.0)) == []


async def test_arming_again_moves_a_timer(store, facts):
    await store.commit([facts.transition("x", timers={"t": 10.0})])
    await store.commit([facts.transition("x", 1, disarm=["t"], timers={"t": 50.0})])

    assert list(await store.sweep(now=49.0)) == []
    assert len(await store.sweep(now=50.0)) == 1


async def test_nothing_is_due_of_an_execution_that_is_over(store, facts):
    await store.commit([facts.transition("x", timers={"t": 10.0})])
    await store.commit([facts.transition("x", 1, status="completed")])

    assert list(await store.sweep(now=20.0)) == []


async def test_the_timer_of_an_ending_fires_until_it_is_disarmed(store, facts):
    """Whoever hears of it may die: the timer outlives the execution that armed it."""
    heard = Timer("x", "finished", 10.0, "finished")
    await store.commit([facts.transition("x", timers={"t": 10.0})])
    over = facts.transition("x", 1, status="completed", timers=[heard])
    await store.commit([over])

    assert list(await store.sweep(now=20.0)) == [heard]
    assert list(await store.sweep(now=20.0)) == [heard]
    await store.disarm(heard)
    await store.disarm(heard)
    assert list(await store.sweep(now=20.0)) == []


@pytest.mark.spec("S-37")
async def test_an_execution_may_tell_a_relative(store, facts):
    await store.commit([facts.transition("parent")])
    look = Timer("parent", "child:parent-1", 10.0, "family")
    await store.commit([facts.transition("child", notify=[look])])

    assert list(await store.sweep(now=20.0)) == [look]
    await store.commit([facts.transition("parent", 1, disarm=["child:parent-1"])])
    assert list(await store.sweep(now=20.0)) == []


@pytest.mark.spec("S-37")
@pytest.mark.parametrize("status", ["completed", None])
async def test_a_finished_or_unknown_parent_gets_no_timer(store, facts, status):
    if status is not None:
        await store.commit([facts.transition("parent", status=status)])
    look = Timer("parent", "child:parent-1", 10.0, "family")

    await store.commit([facts.transition("child", notify=[look])])

    assert list(await store.sweep(now=20.0)) == []


async def test_a_timer_of_an_unknown_execution_is_disarmed_already(store):
    await store.disarm(Timer("gone", "t", 10.0, "delay"))

    assert list(await store.sweep(now=20.0)) == []
