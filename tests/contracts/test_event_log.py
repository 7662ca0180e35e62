"""The event log: appended whole or not at all, read in order, verified."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from store_calls import claimed, length

from noetl.errors import LogConflict, StoreError
from noetl.ports import Command, Snapshot, Timer

pytestmark = pytest.mark.spec("S-62")


@pytest.mark.spec("EVT-01", "REP-01")
async def test_events_come_back_as_they_were_committed(store, facts):
    batch = facts.transition("x", count=3)
    await store.commit([batch])

    assert await store.read("x") == batch.log.events


@pytest.mark.spec("EVT-01")
async def test_a_committed_event_cannot_be_changed_by_its_maker(store, facts):
    batch = facts.transition("x")
    await store.commit([batch])
    batch.log.events[0].payload["n"] = "forged"

    [event] = await store.read("x")
    event.payload["n"] = "forged, too"

    assert (await store.read("x"))[0].payload == {"n": 0}


@pytest.mark.spec("EVT-01", "REP-01")
async def test_an_execution_can_begin_with_events_of_another_one(store, facts):
    kept = [facts.event("x", seq, n=seq) for seq in (1, 2)]
    bodies = [msgspec.json.encode(event) for event in kept]
    batch = facts.transition("x", 2, commands=["x-1"], history=bodies)
    await store.commit([batch])
    await store.commit([facts.transition("x", 3)])

    assert (await store.read("x"))[:3] == [*kept, *batch.log.events]
    assert await length(store, "x") == 4
    assert await store.verify("x") is None
    assert await claimed(store) == ["x-1"]


@pytest.mark.spec("EVT-01")
async def test_only_a_new_execution_begins_with_events_of_another_one(store, facts):
    body = msgspec.json.encode(facts.event("x", 1))
    with pytest.raises(StoreError, match="begins with 1 events, not 2"):
        await store.commit([facts.transition("x", 2, history=[body])])
    await store.commit([facts.transition("x")])
    with pytest.raises(LogConflict):
        await store.commit([facts.transition("x", 1, history=[body])])

    assert await length(store, "x") == 1


@pytest.mark.spec("S-44")
async def test_a_log_has_no_gaps_over_many_commits(store, facts):
    for number in range(5):
        await store.commit([facts.transition("x", number * 3, count=3)])

    assert [event.seq for event in await store.read("x")] == list(range(1, 16))


@pytest.mark.spec("S-44")
async def test_reading_begins_after_a_position(store, facts):
    await store.commit([facts.transition("x", count=5)])

    assert [event.seq for event in await store.read("x", after=3)] == [4, 5]
    assert list(await store.read("x", after=5)) == []


async def test_reading_can_be_limited(store, facts):
    await store.commit([facts.transition("x", count=5)])

    page = await store.read("x", after=1, limit=2)

    assert [event.seq for event in page] == [2, 3]


@pytest.mark.parametrize("size", [1, 2, 5, 9])
async def test_a_log_is_read_in_pages(store, facts, size):
    await store.commit([facts.transition("x", count=5)])

    pages = [page async for page in store.pages("x", after=1, size=size)]

    assert [event.seq for page in pages for event in page] == [2, 3, 4, 5]
    assert {len(page) for page in pages[:-1]} <= {size}
    assert len(pages) == -(-4 // size)


async def test_logs_do_not_mix(store, facts):
    await store.commit([facts.transition("x", count=2), facts.transition("y")])

    assert {event.execution_id for event in await store.read("x")} == {"x"}
    assert {event.execution_id for event in await store.read("y")} == {"y"}


async def test_an_unknown_execution_has_no_events(store):
    assert list(await store.read("nobody")) == []


@pytest.mark.spec("SRV-09")
async def test_refuses_a_batch_decided_on_old_facts(store, facts):
    await store.commit([facts.transition("x")])

    with pytest.raises(LogConflict, match="execution x is at event 1"):
        await store.commit([facts.transition("x", 0, count=2)])

    assert await length(store, "x") == 1


async def test_refuses_a_batch_decided_on_facts_that_are_not_there(store, facts):
    with pytest.raises(LogConflict) as caught:
        await store.commit([facts.transition("x", 4)])

    assert caught.value.execution_id == "x"
    assert await length(store, "x") == 0


@pytest.mark.spec("S-46")
async def test_the_same_batch_twice_is_stored_once(store, facts):
    batch = facts.transition("x", count=2)
    await store.commit([batch])

    with pytest.raises(LogConflict):
        await store.commit([batch])

    assert await length(store, "x") == 2


@pytest.mark.spec("EVT-01")
async def test_of_a_refused_group_nothing_is_stored(store, facts):
    await store.commit([facts.transition("x")])
    fine = facts.transition("y", commands=["y-1"], timers={"t": 1.0})

    with pytest.raises(LogConflict):
        await store.commit([fine, facts.transition("x")])

    assert await length(store, "y") == 0
    assert await claimed(store) == []
    assert list(await store.sweep(now=200.0)) == []
    assert [summary.execution_id for summary in await store.find()] == ["x"]


async def test_a_group_may_advance_one_execution_twice(store, facts):
    await store.commit([facts.transition("x"), facts.transition("x", 1, count=2)])

    assert await length(store, "x") == 3
    assert await store.verify("x") is None


async def test_an_empty_group_changes_nothing(store):
    await store.commit([])

    assert list(await store.find()) == []


@pytest.mark.spec("S-44")
@pytest.mark.parametrize("seqs", [(2,), (1, 3), (1, 1), (0,)])
async def test_refuses_a_batch_with_a_gap(store, facts, seqs):
    events = [facts.event("x", seq) for seq in seqs]
    batch = facts.transition("x")
    log = msgspec.structs.replace(batch.log, events=events)
    batch = msgspec.structs.replace(batch, log=log)

    with pytest.raises(StoreError) as caught:
        await store.commit([batch])

    assert caught.value.kind == "store.sequence"
    assert await length(store, "x") == 0


async def test_an_execution_begins_with_an_event(store, facts):
    with pytest.raises(StoreError, match="cannot begin without an event"):
        await store.commit([facts.transition("x", count=0)])


@pytest.mark.parametrize(
    "foreign",
    [
        {"commands": [Command("y-1", "y")]},
        {"timers": [Timer("y", "t", 1.0, "delay")]},
    ],
)
async def test_nothing_is_planned_for_another_execution(store, facts, foreign):
    batch = facts.transition("x", **foreign)

    with pytest.raises(StoreError) as caught:
        await store.commit([batch])

    assert caught.value.kind == "store.foreign"
    assert await length(store, "x") == 0


async def test_what_is_not_json_is_refused(store, facts):
    batch = facts.transition("x")
    batch.log.events[0].payload["text"] = "\ud800"

    with pytest.raises(StoreError) as caught:
        await store.commit([batch])

    assert caught.value.kind == "store.encoding"
    assert await length(store, "x") == 0


async def test_commits_awaited_at_once_fail_on_their_own(store, facts):
    await store.commit([facts.transition("x")])
    names = [f"y{number}" for number in range(20)]

    commits = [store.commit([facts.transition(name)]) for name in names]
    commits.insert(7, store.commit([facts.transition("x")]))
    answers = await asyncio.gather(*commits, return_exceptions=True)

    assert isinstance(answers.pop(7), LogConflict)
    assert answers == [None] * 20
    assert len(await store.find()) == 21


async def test_of_two_that_decide_at_once_one_wins(store, facts):
    batches = [facts.transition("x", count=2), facts.transition("x", count=3)]

    answers = await asyncio.gather(
        *(store.commit([batch]) for batch in batches), return_exceptions=True
    )

    assert answers[0] is None
    assert isinstance(answers[1], LogConflict)
    assert await length(store, "x") == 2


async def test_an_intact_log_verifies(store, facts):
    await store.commit([facts.transition("x", count=3)])
    await store.commit([facts.transition("x", 3, count=2)])

    assert await store.verify("x") is None


async def test_only_what_is_there_can_be_verified(store):
    with pytest.raises(StoreError, match="no execution nobody"):
        await store.verify("nobody")


@pytest.mark.spec("REP-04")
async def test_the_last_snapshot_counts(store, facts):
    assert await store.snapshot("x") is None
    await store.commit([facts.transition("x", count=3, snapshot=b"three")])
    await store.commit([facts.transition("x", 3)])
    assert await store.snapshot("x") == Snapshot(3, b"three")

    await store.commit([facts.transition("x", 4, count=2, snapshot=b"six")])

    assert await store.snapshot("x") == Snapshot(6, b"six")


async def test_no_events_are_read_if_none_are_asked_for(store, facts):
    await store.commit([facts.transition("x", count=3)])

    assert await store.read("x", limit=0) == []
