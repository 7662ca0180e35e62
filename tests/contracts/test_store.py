"""What every store promises, one promise a test."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from noetl.errors import LeaseLost, LogConflict, RequestKnown, StoreError
from noetl.ports import (
    Command,
    CommandRow,
    Grant,
    Lease,
    Snapshot,
    Store,
    Timer,
)

pytestmark = pytest.mark.spec("S-62")

TTL = 30.0


async def claim(store: Store, slots: int = 1, **changes: Any) -> Sequence[Lease]:
    said = {"owner": "w1", "pool": "default", "now": 100.0, "ttl": TTL} | changes
    return await store.claim(said.pop("owner"), slots=slots, **said)


async def claimed(store: Store, slots: int = 100, **changes: Any) -> list[str]:
    return [lease.command_id for lease in await claim(store, slots, **changes)]


async def length(store: Store, execution_id: str) -> int:
    found = len(await store.read(execution_id))
    assert await store.length(execution_id) == found
    return found


# The log


@pytest.mark.spec("EVT-01", "REP-01")
async def test_events_come_back_as_they_were_committed(store, facts):
    batch = facts.transition("x", count=3)
    await store.commit([batch])

    assert await store.read("x") == batch.events


@pytest.mark.spec("EVT-01")
async def test_a_committed_event_cannot_be_changed_by_its_maker(store, facts):
    batch = facts.transition("x")
    await store.commit([batch])
    batch.events[0].payload["n"] = "forged"

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

    assert (await store.read("x"))[:3] == [*kept, *batch.events]
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
    batch = msgspec.structs.replace(facts.transition("x"), events=events)

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
    batch = msgspec.structs.replace(facts.transition("x"), **foreign)

    with pytest.raises(StoreError) as caught:
        await store.commit([batch])

    assert caught.value.kind == "store.foreign"
    assert await length(store, "x") == 0


async def test_what_is_not_json_is_refused(store, facts):
    batch = facts.transition("x")
    batch.events[0].payload["text"] = "\ud800"

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


# Commands and leases


@pytest.mark.spec("WKR-02", "SRV-10")
async def test_a_command_has_one_owner(store, facts):
    await store.commit([facts.transition("x", commands=["x-1"])])

    assert list(await claim(store)) == [Lease("x-1", "x", "w1", 1)]
    assert await claimed(store, owner="w2") == []


async def test_of_two_claims_at_once_one_gets_the_command(store, facts):
    await store.commit([facts.transition("x", commands=["x-1"])])

    answers = await asyncio.gather(
        *(claimed(store, owner=f"w{number}") for number in range(5))
    )

    assert sorted(answers) == [[], [], [], [], ["x-1"]]


async def test_a_claim_takes_no_more_than_it_has_slots_for(store, facts):
    names = [f"x-{number}" for number in range(12)]
    await store.commit([facts.transition("x", commands=names)])

    assert await claimed(store, 5) == names[:5]
    assert await claimed(store, 0) == []
    assert await claimed(store, 50) == names[5:]


@pytest.mark.spec("S-64")
async def test_a_pool_gets_its_own_commands(store, facts):
    commands = [Command("x-1", "x"), Command("x-2", "x", pool="gpu")]
    await store.commit([facts.transition("x", commands=commands)])

    assert await claimed(store, pool="gpu") == ["x-2"]
    assert await claimed(store, pool="none") == []
    assert await claimed(store) == ["x-1"]


async def test_executions_take_turns(store, facts):
    many = [f"x-{number}" for number in range(50)]
    await store.commit([facts.transition("x", commands=many)])
    await store.commit([facts.transition("y", commands=["y-1", "y-2", "y-3"])])

    assert await claimed(store, 4) == ["x-0", "y-1", "x-1", "y-2"]
    assert await claimed(store, 3) == ["x-2", "y-3", "x-3"]


async def test_the_turn_goes_round_over_small_claims(store, facts):
    for name in "abc":
        commands = [f"{name}-{number}" for number in range(9)]
        await store.commit([facts.transition(name, commands=commands)])

    taken = [(await claimed(store, 1))[0][0] for _ in range(9)]

    assert "".join(taken) == "abcabcabc"


@pytest.mark.spec("S-46")
async def test_planning_a_command_again_changes_nothing(store, facts):
    await store.commit([facts.transition("x", commands=["x-1", "x-2"])])
    [lease, _] = await claim(store, 2)
    await store.commit([facts.transition("x", 1, commands=["x-1"], done=["x-2"])])

    await store.commit([facts.transition("x", 2, commands=["x-1", "x-2"])])

    assert await claimed(store) == []
    assert list(await store.renew([lease], now=101.0, ttl=TTL)) == []


@pytest.mark.spec("S-56")
async def test_a_command_waits_for_its_time(store, facts):
    later = Command("x-1", "x", not_before=150.0)
    await store.commit([facts.transition("x", commands=[later, "x-2"])])

    assert await claimed(store, now=149.9) == ["x-2"]
    assert await claimed(store, now=150.0) == ["x-1"]


@pytest.mark.spec("S-39")
async def test_a_paused_execution_waits_until_it_is_resumed(store, facts):
    await store.commit([facts.transition("x", commands=["x-1"])])
    await store.commit([facts.transition("x", 1, status="paused")])
    assert await claimed(store) == []

    await store.commit([facts.transition("x", 2)])

    assert await claimed(store) == ["x-1"]


@pytest.mark.spec("S-38")
@pytest.mark.parametrize("status", ["cancelled", "failed", "completed"])
async def test_nothing_is_leased_of_an_execution_that_is_over(store, facts, status):
    await store.commit([facts.transition("x", commands=["x-1", "x-2"])])
    [lease] = await claim(store)
    await store.commit([facts.transition("x", 1, status=status)])
    await store.commit([facts.transition("y", commands=["y-1"])])

    assert await claimed(store) == ["y-1"]
    await store.sweep(now=1000.0)
    assert await claimed(store, now=1000.0) == ["y-1"]
    assert list(await store.renew([lease], now=1000.0, ttl=TTL)) == [lease]


@pytest.mark.spec("S-45")
async def test_the_owner_may_report(store, facts):
    await store.commit([facts.transition("x", commands=["x-1"])])
    [lease] = await claim(store)

    await store.commit([facts.transition("x", 1, leases=[lease], done=["x-1"])])

    assert await length(store, "x") == 2


@pytest.mark.spec("S-45")
@pytest.mark.parametrize(
    "stale",
    [
        pytest.param(Lease("x-1", "x", "w1", 2), id="an epoch to come"),
        pytest.param(Lease("x-1", "x", "w1", 0), id="an epoch of the past"),
        pytest.param(Lease("x-1", "x", "w2", 1), id="another owner"),
        pytest.param(Lease("x-9", "x", "w1", 1), id="a command that is not there"),
        pytest.param(Lease("x-2", "x", "w1", 0), id="a command nobody has claimed"),
    ],
)
async def test_nobody_else_may_report(store, facts, stale):
    await store.commit([facts.transition("x", commands=["x-1", "x-2"])])
    await claim(store)

    with pytest.raises(LeaseLost) as caught:
        await store.commit([facts.transition("x", 1, leases=[stale], done=["x-2"])])

    assert caught.value.command_id == stale.command_id
    assert await length(store, "x") == 1
    assert await claimed(store) == ["x-2"]


@pytest.mark.spec("S-45")
@pytest.mark.parametrize("change", ["done", "release"])
async def test_a_report_after_the_end_of_the_lease_is_refused(store, facts, change):
    await store.commit([facts.transition("x", commands=["x-1"])])
    [lease] = await claim(store)
    ending = facts.transition("x", 1, leases=[lease], **{change: ["x-1"]})
    late = facts.transition("x", 2, leases=[lease])

    with pytest.raises(LeaseLost):  # also within one group
        await store.commit([ending, late])
    await store.commit([ending])
    with pytest.raises(LeaseLost):
        await store.commit([late])

    assert await length(store, "x") == 2


@pytest.mark.spec("S-45")
async def test_an_expired_lease_that_nobody_took_still_has_its_owner(store, facts):
    await store.commit([facts.transition("x", commands=["x-1"])])
    [lease] = await claim(store)
    await store.sweep(now=131.0)

    await store.commit([facts.transition("x", 1, leases=[lease])])

    assert await length(store, "x") == 2


@pytest.mark.spec("S-45")
async def test_an_expired_command_is_offered_again_after_the_grace(store, facts):
    await store.commit([facts.transition("x", commands=["x-1"])])
    [old] = await claim(store, now=100.0)

    await store.sweep(now=131.9)
    assert await claimed(store, now=131.9) == []
    await store.sweep(now=132.1)
    [new] = await claim(store, owner="w2", now=132.1)

    assert new == Lease("x-1", "x", "w2", old.epoch + 1)
    with pytest.raises(LeaseLost):
        await store.commit([facts.transition("x", 1, leases=[old])])


@pytest.mark.spec("S-45")
async def test_the_epoch_rises_with_every_claim(store, facts):
    await store.commit([facts.transition("x", commands=["x-1"])])
    epochs = []
    for turn in range(1, 4):
        [lease] = await claim(store)
        epochs.append(lease.epoch)
        await store.commit(
            [facts.transition("x", turn, leases=[lease], release=["x-1"])]
        )

    assert epochs == [1, 2, 3]


@pytest.mark.spec("S-45")
async def test_a_renewed_lease_lives_on(store, facts):
    await store.commit([facts.transition("x", commands=["x-1"])])
    [lease] = await claim(store, now=100.0)

    assert list(await store.renew([lease], now=125.0, ttl=TTL)) == []
    await store.sweep(now=150.0)

    assert await claimed(store, now=150.0) == []


@pytest.mark.spec("S-45")
async def test_renewing_says_which_leases_are_lost(store, facts):
    await store.commit([facts.transition("x", commands=["x-1", "x-2", "x-3"])])
    kept, ended, swept = await claim(store, 3)
    await store.commit([facts.transition("x", 1, done=["x-2"])])
    await store.renew([kept], now=120.0, ttl=TTL)
    await store.sweep(now=133.0)

    lost = await store.renew([kept, ended, swept], now=133.0, ttl=TTL)

    assert list(lost) == [ended, swept]


async def test_a_released_command_is_ready_at_once(store, facts):
    await store.commit([facts.transition("x", commands=["x-1"])])
    [lease] = await claim(store)
    await store.commit([facts.transition("x", 1, leases=[lease], release=["x-1"])])

    assert await claimed(store, owner="w2") == ["x-1"]


@pytest.mark.spec("S-68")
async def test_a_released_command_may_be_planned_for_later(store, facts):
    await store.commit([facts.transition("x", commands=["x-1"])])
    [lease] = await claim(store)
    later = Command("x-1", "x", not_before=500.0)
    await store.commit(
        [facts.transition("x", 1, leases=[lease], commands=[later], release=["x-1"])]
    )
    assert await claimed(store, now=499.0) == []

    sooner = Command("x-1", "x")
    await store.commit([facts.transition("x", 2, commands=[sooner], release=["x-1"])])

    assert list(await claim(store, now=499.0)) == [Lease("x-1", "x", "w1", 2)]


@pytest.mark.spec("S-68")
async def test_the_last_plan_for_a_command_counts(store, facts):
    times = [150.0, 500.0]
    for after, time in enumerate(times):
        command = Command("x-1", "x", not_before=time)
        batch = facts.transition("x", after, commands=[command], release=["x-1"])
        await store.commit([batch])

    assert await claimed(store, now=200.0) == []
    assert await claimed(store, now=500.0) == ["x-1"]


async def test_a_command_that_is_made_ready_twice_is_leased_once(store, facts):
    await store.commit([facts.transition("x", commands=["x-1", "x-2"])])
    again = facts.transition("x", 1, commands=["x-1"], release=["x-1"])
    await store.commit([again])

    assert await claimed(store) == ["x-1", "x-2"]
    assert await claimed(store) == []


async def test_what_is_done_cannot_be_released(store, facts):
    await store.commit([facts.transition("x", commands=["x-1"], done=["x-1"])])
    await store.commit([facts.transition("x", 1, commands=["x-1"], release=["x-1"])])

    assert await claimed(store) == []


@pytest.mark.spec("S-46")
async def test_a_report_that_comes_again_is_known_by_its_number(store, facts):
    await store.commit([facts.transition("x", commands=["x-1", "x-2"])])
    [lease] = await claim(store)
    held = CommandRow("x", "default", 1, "w1", held=True, reported=0, unreported=1)
    assert await store.commands(["x-1"]) == {"x-1": held}

    report = facts.transition("x", 1, leases=[lease], reported={"x-1": 3})
    await store.commit([report])

    found = await store.commands(["x-1", "x-2", "x-9"])
    ready = CommandRow("x", "default", 0, None, held=False, reported=0)
    assert found == {
        "x-1": msgspec.structs.replace(held, reported=3, unreported=0),
        "x-2": ready,
    }


@pytest.mark.spec("S-46")
async def test_reports_are_counted_under_each_lease(store, facts):
    await store.commit([facts.transition("x", commands=["x-1"])])
    [lease] = await claim(store)
    last = {"leases": [lease], "reported": {"x-1": 3}, "release": ["x-1"]}
    await store.commit([facts.transition("x", 1, **last)])

    released = (await store.commands(["x-1"]))["x-1"]
    assert (released.epoch, released.owner, released.held) == (1, None, False)
    await claim(store)
    assert (await store.commands(["x-1"]))["x-1"].reported == 0


async def test_a_command_that_has_ended_keeps_the_name_of_its_last_owner(store, facts):
    """So that a report of it that comes again is compared for its owner alone."""
    await store.commit([facts.transition("x", commands=["x-1"])])
    [lease] = await claim(store)
    await store.commit([facts.transition("x", 1, leases=[lease], done=["x-1"])])

    ended = (await store.commands(["x-1"]))["x-1"]

    assert (ended.epoch, ended.owner, ended.held) == (1, "w1", False)
    assert list(await store.held("w1")) == []


async def test_a_lease_that_names_another_execution_is_not_held(store, facts):
    await store.commit([facts.transition("x", commands=["x-1"])])
    await store.commit([facts.transition("y", commands=["y-1"])])
    [mine, _] = sorted(await claim(store, slots=2), key=lambda each: each.command_id)
    forged = msgspec.structs.replace(mine, execution_id="y")
    unknown = msgspec.structs.replace(mine, execution_id="z")

    lost = await store.renew([forged, unknown], now=120.0, ttl=TTL)
    assert list(lost) == [forged, unknown]
    for execution_id, lease in (("y", forged), ("y", mine), ("x", forged)):
        with pytest.raises(LeaseLost):
            await store.commit([facts.transition(execution_id, 1, leases=[lease])])
    group = [facts.transition("x", 1), facts.transition("y", 1, leases=[mine])]
    with pytest.raises(LeaseLost):  # also within one group
        await store.commit(group)

    assert (await length(store, "x"), await length(store, "y")) == (1, 1)
    await store.sweep(now=132.1)
    assert await claimed(store, now=132.1, slots=2) == ["x-1", "y-1"], "not extended"


# Timers


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


async def test_somebody_hears_of_an_end_until_they_have(store, facts):
    """Whoever hears of it may die: the timer outlives the execution that armed it."""
    heard = Timer("x", "finished", 10.0, "finished")
    await store.commit([facts.transition("x", timers={"t": 10.0})])
    over = facts.transition("x", 1, status="completed")
    await store.commit([msgspec.structs.replace(over, timers=[heard])])

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
async def test_nobody_tells_what_is_over_or_unknown(store, facts, status):
    if status is not None:
        await store.commit([facts.transition("parent", status=status)])
    look = Timer("parent", "child:parent-1", 10.0, "family")

    await store.commit([facts.transition("child", notify=[look])])

    assert list(await store.sweep(now=20.0)) == []


# Listings


@pytest.mark.spec("SRV-03")
async def test_executions_are_listed_newest_first(store, facts):
    for name in "abc":
        await store.commit([facts.transition(name)])
    await store.commit([facts.transition("a", 1, status="failed")])

    assert list(await store.find()) == [
        facts.summary("c"),
        facts.summary("b"),
        facts.summary("a", "failed"),
    ]


@pytest.mark.spec("SRV-03")
async def test_executions_are_found_by_status(store, facts):
    for name in "abcd":
        status = "failed" if name in "ac" else "running"
        await store.commit([facts.transition(name, status=status)])

    found = await store.find(status="failed")

    assert [summary.execution_id for summary in found] == ["c", "a"]


@pytest.mark.spec("SRV-03")
@pytest.mark.parametrize("status", [None, "running"])
async def test_listings_come_in_pages(store, facts, status):
    for number in range(7):
        await store.commit([facts.transition(f"x{number}")])
    pages, before = [], None
    while page := await store.find(status=status, before=before, limit=3):
        pages.append([summary.execution_id for summary in page])
        before = pages[-1][-1]

    assert pages == [["x6", "x5", "x4"], ["x3", "x2", "x1"], ["x0"]]


@pytest.mark.spec("SRV-03")
@pytest.mark.parametrize(
    ("before", "status", "expected"),
    [
        pytest.param("x4", None, ["x2", "x0"], id="one of this log"),
        pytest.param("x3", None, ["x2", "x0"], id="one of another log, in between"),
        pytest.param("x9", None, ["x6", "x4"], id="one that is newer than all"),
        pytest.param("x0", None, [], id="the oldest"),
        pytest.param("a", None, [], id="one that is older than all"),
        pytest.param("x6", "failed", ["x4", "x0"], id="of a status"),
    ],
)
async def test_a_listing_goes_on_before_an_id_of_any_log(
    store, facts, before, status, expected
):
    for number in (0, 2, 4, 6):
        failed = "failed" if number in (0, 4) else "running"
        await store.commit([facts.transition(f"x{number}", status=failed)])

    found = await store.find(before=before, status=status, limit=2)

    assert [summary.execution_id for summary in found] == expected


@pytest.mark.spec("SRV-03")
async def test_one_execution_has_a_line_of_its_own(store, facts):
    await store.commit([facts.transition("x"), facts.transition("y", status="failed")])

    assert (await store.summary("y")).status == "failed"
    with pytest.raises(StoreError) as caught:
        await store.summary("z")
    assert caught.value.kind == "store.missing"


# Requests


@pytest.mark.spec("SRV-01")
async def test_a_request_is_found_by_its_key(store, facts):
    await store.commit([facts.transition("x", request_key="k")])
    await store.commit([facts.transition("x", 1), facts.transition("y")])

    assert await store.find_request("k") == "x"
    assert await store.find_request("other") is None


@pytest.mark.spec("SRV-01")
async def test_a_request_has_one_execution_whatever_is_repeated(store, facts):
    await store.commit([facts.transition("x", request_key="k")])

    with pytest.raises(RequestKnown):
        await store.commit([facts.transition("y", request_key="k")])

    assert await length(store, "y") == 0
    assert await store.find_request("k") == "x"
    await store.commit([facts.transition("y", request_key="other")])


@pytest.mark.spec("SRV-01")
async def test_of_a_group_with_one_key_twice_nothing_is_stored(store, facts):
    twice = [facts.transition(name, request_key="k") for name in ("x", "y")]

    with pytest.raises(RequestKnown):
        await store.commit(twice)

    assert [await length(store, name) for name in ("x", "y")] == [0, 0]
    assert await store.find_request("k") is None


@pytest.mark.spec("SRV-01")
async def test_of_requests_at_the_same_time_one_wins(store, facts):
    names = [f"x{number}" for number in range(8)]
    commits = [store.commit([facts.transition(n, request_key="k")]) for n in names]

    answers = await asyncio.gather(*commits, return_exceptions=True)

    assert sum(isinstance(answer, RequestKnown) for answer in answers) == 7
    assert [await length(store, name) for name in names].count(1) == 1


async def test_the_beginning_of_an_id_will_do(store, facts):
    for name in ("ab1", "ab2", "abc", "ab", "b"):
        await store.commit([facts.transition(name)])

    assert list(await store.resolve("ab1")) == ["ab1"]
    assert list(await store.resolve("ab")) == ["ab"]
    assert list(await store.resolve("a")) == ["ab", "ab1", "ab2", "abc"]
    assert list(await store.resolve("", limit=2)) == ["ab", "ab1"]
    assert list(await store.resolve("c")) == []
    assert list(await store.resolve("%")) == []


# Granted work, snapshots


@pytest.mark.spec("S-45")
async def test_a_command_may_have_an_owner_from_the_start(store, facts):
    lease = Lease("x-1", "x", "w1", 1)
    granted = Grant([lease], expires_at=130.0)
    await store.commit([facts.transition("x", commands=["x-1", "x-2"], grant=granted)])

    assert await claimed(store, slots=5) == ["x-2"]
    await store.commit([facts.transition("x", 1, leases=[lease], done=["x-1"])])
    assert await length(store, "x") == 2


@pytest.mark.spec("S-45")
async def test_granted_work_is_offered_again_when_its_lease_expires(store, facts):
    granted = Grant([Lease("x-1", "x", "w1", 1)], expires_at=130.0)
    await store.commit([facts.transition("x", commands=["x-1"], grant=granted)])
    await store.sweep(now=140.0)

    assert list(await claim(store, owner="w2", now=140.0)) == [
        Lease("x-1", "x", "w2", 2)
    ]


async def test_nobody_is_granted_the_work_of_another_execution(store, facts):
    granted = Grant([Lease("y-1", "y", "w1", 1)], expires_at=130.0)

    with pytest.raises(StoreError):
        await store.commit([facts.transition("x", commands=["x-1"], grant=granted)])


@pytest.mark.spec("S-45")
async def test_every_reporting_lease_of_a_transition_must_be_held(store, facts):
    await store.commit([facts.transition("x", commands=["x-1", "x-2"])])
    first, second = await claim(store, 2)
    stale = Lease("x-2", "x", "w1", 9)

    with pytest.raises(LeaseLost) as caught:
        await store.commit([facts.transition("x", 1, leases=[first, stale])])
    assert caught.value.command_id == "x-2"
    await store.commit([facts.transition("x", 1, leases=[first, second])])


@pytest.mark.spec("REP-04")
async def test_the_last_snapshot_counts(store, facts):
    assert await store.snapshot("x") is None
    await store.commit([facts.transition("x", count=3, snapshot=b"three")])
    await store.commit([facts.transition("x", 3)])
    assert await store.snapshot("x") == Snapshot(3, b"three")

    await store.commit([facts.transition("x", 4, count=2, snapshot=b"six")])

    assert await store.snapshot("x") == Snapshot(6, b"six")


async def test_the_leases_of_an_owner_can_be_asked_for(store, facts):
    await store.commit([facts.transition("x", commands=["x-1", "x-2", "x-3"])])
    leases = await claim(store, 2)
    await claim(store, 1, owner="w2")

    assert list(await store.held("w1")) == list(leases)
    await store.commit([facts.transition("x", 1, done=["x-1"])])
    assert [lease.command_id for lease in await store.held("w1")] == ["x-2"]
    assert list(await store.held("nobody")) == []


@pytest.mark.spec("S-45")
async def test_claims_without_a_report_are_counted_in_a_row(store, facts):
    await store.commit([facts.transition("x", commands=["x-1"])])
    for number in range(1, 4):
        [lease] = await claim(store, now=number * 100.0)
        assert (await store.commands(["x-1"]))["x-1"].unreported == number
        await store.sweep(now=number * 100.0 + 50.0)

    [lease] = await claim(store, now=1_000.0)
    await store.commit([facts.transition("x", 1, leases=[lease], reported={"x-1": 1})])
    assert (await store.commands(["x-1"]))["x-1"].unreported == 0
    await store.sweep(now=1_050.0)
    [lease] = await claim(store, now=2_000.0)
    assert (await store.commands(["x-1"]))["x-1"].unreported == 1


@pytest.mark.spec("S-45")
async def test_what_is_forgiven_does_not_count(store, facts):
    await store.commit([facts.transition("x", commands=["x-1"])])
    [lease] = await claim(store, now=100.0)
    await store.forgive([msgspec.structs.replace(lease, owner="other")])
    assert (await store.commands(["x-1"]))["x-1"].unreported == 1
    await store.forgive([lease])
    assert (await store.commands(["x-1"]))["x-1"].unreported == 0
