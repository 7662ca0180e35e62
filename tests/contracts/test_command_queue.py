"""The command queue: planned, claimed in turns, released and ended."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from store_calls import TTL, claim, claimed

from noetl.engine.times import rfc3339
from noetl.errors import LogConflict
from noetl.ports import Backlog, Command, Lease, Transition

LATER = 4e9


def at(transition: Transition, seconds: float) -> Transition:
    """The same transition, decided at this time."""
    replace = msgspec.structs.replace
    events = [
        replace(event, timestamp=rfc3339(seconds)) for event in transition.log.events
    ]
    return replace(transition, log=replace(transition.log, events=events))


pytestmark = pytest.mark.spec("S-62")


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


@pytest.mark.spec("S-79")
async def test_a_claim_for_waits_gets_what_needs_no_slot(store, facts):
    many = [f"x-{number}" for number in range(40)]
    wait = Command("x-wait", "x", waits=True)
    later = Command("x-later", "x", not_before=150.0, waits=True)
    await store.commit([facts.transition("x", commands=[*many, wait, later])])
    await store.commit([facts.transition("y", commands=["y-1"])])

    assert await claimed(store, waits=True) == ["x-wait"]
    assert await claimed(store, waits=True) == []
    assert await claimed(store, waits=True, now=151.0) == ["x-later"]
    assert await claimed(store, 3) == ["x-0", "y-1", "x-1"]


@pytest.mark.spec("S-79")
async def test_a_free_slot_takes_what_only_waits_in_its_turn(store, facts):
    wait = Command("x-wait", "x", waits=True)
    await store.commit([facts.transition("x", commands=["x-1", "x-2", wait])])

    assert await claimed(store, 2) == ["x-1", "x-2"]


@pytest.mark.spec("S-79", "S-68")
async def test_a_command_that_has_waited_goes_on_in_a_slot(store, facts):
    wait = Command("x-1", "x", turn=5, waits=True)
    await store.commit([facts.transition("x", commands=[wait])])
    assert await claimed(store, waits=True) == ["x-1"]
    again = Command("x-1", "x", not_before=110.0, turn=5)
    parked = facts.transition("x", 1, commands=[again], release=["x-1"])
    await store.commit([parked])

    assert await claimed(store, waits=True, now=120.0) == []
    assert await claimed(store, now=120.0) == ["x-1"]


@pytest.mark.spec("S-79")
async def test_the_commands_of_an_execution_go_out_by_their_turns(store, facts):
    loop = [Command(f"x/{number}", "x", turn=10 + number) for number in range(4)]
    await store.commit([facts.transition("x", 0, commands=loop)])
    beside = [Command("y", "x", turn=11), Command("z", "x", turn=12)]
    await store.commit([facts.transition("x", 1, commands=beside)])

    assert await claimed(store) == ["x/0", "y", "x/1", "z", "x/2", "x/3"]


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
    leases = await claim(store, 2)

    await store.commit([facts.transition("x", 1, commands=["x-1", "x-2"])])

    assert await claimed(store) == []
    assert list(await store.renew(leases, now=101.0, ttl=TTL)) == []


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


async def test_a_released_command_is_ready_at_once(store, facts):
    await store.commit([facts.transition("x", commands=["x-1"])])
    [lease] = await claim(store)
    await store.commit([facts.transition("x", 1, leases=[lease], release=["x-1"])])

    assert await claimed(store, owner="w2") == ["x-1"]


async def test_a_command_is_released_without_an_event(store, facts):
    await store.commit([facts.transition("x", commands=["x-1"])])
    [lease] = await claim(store)
    release = {"leases": [lease], "release": ["x-1"], "reported": {"x-1": 1}}

    await store.commit([facts.transition("x", 1, count=0, **release)])

    assert await claimed(store, owner="w2") == ["x-1"]
    assert await store.length("x") == 1


async def test_a_release_without_an_event_is_refused_if_the_log_has_moved_on(
    store, facts
):
    await store.commit([facts.transition("x", commands=["x-1"])])
    [lease] = await claim(store)
    await store.commit([facts.transition("x", 1)])
    outdated = facts.transition("x", 1, count=0, leases=[lease], release=["x-1"])

    with pytest.raises(LogConflict):
        await store.commit([outdated])
    assert await claimed(store, owner="w2") == []


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


async def test_a_command_that_has_ended_is_not_offered_and_not_released(store, facts):
    await store.commit([facts.transition("x", commands=["x-1"], done=["x-1"])])
    assert await claimed(store) == []

    await store.commit([facts.transition("x", 1, release=["x-1"])])

    assert await claimed(store) == []


async def test_commands_that_wait_or_run_are_counted_by_pool(store, facts):
    names = [f"x-{number}" for number in range(5)]
    other = Command("x-9", "x", pool="gpu")
    commands = [*(Command(name, "x") for name in names), other]
    await store.commit([facts.transition("x", commands=commands)])
    assert len(await claimed(store, 2)) == 2

    assert await store.count_commands() == {
        "default": Backlog(ready=3, leased=2),
        "gpu": Backlog(ready=1, leased=0),
    }


async def test_the_oldest_command_that_waits_for_a_slot_is_known_by_pool(store, facts):
    delayed = Command("x-9", "x", pool="gpu", not_before=LATER)
    first = facts.transition("x", commands=["x-1", delayed])
    second = facts.transition("y", commands=["y-1", "y-2"])
    await store.commit([at(first, 100.0), at(second, 200.0)])

    assert await store.oldest_ready() == {"default": 100.0}
    assert await claimed(store, 1) == ["x-1"]
    assert await store.oldest_ready() == {"default": 200.0}
    await claimed(store, now=LATER, pool="none")
    assert await store.oldest_ready() == {"default": 200.0, "gpu": LATER}


async def test_commands_that_are_delayed_are_counted_by_pool(store, facts):
    names = [f"x-{number}" for number in range(4)]
    commands = [Command(name, "x", not_before=LATER) for name in names]
    commands += [Command("x-8", "x", pool="gpu", not_before=LATER), Command("x-9", "x")]
    await store.commit([facts.transition("x", commands=commands)])

    assert await store.count_delayed(limit=100) == {"default": 4, "gpu": 1}
    assert sum((await store.count_delayed(limit=3)).values()) == 3


async def test_open_executions_with_the_longest_waits_are_found(store, facts):
    for number, (name, status) in enumerate(
        [("a", "waiting"), ("b", "running"), ("c", "paused"), ("d", "failed")]
    ):
        commands = [Command(f"{name}-{n}", name, not_before=LATER + n) for n in (0, 1)]
        commands.append(Command(f"{name}-2", name))
        done = [f"{name}-{n}" for n in (0, 1)] if status == "failed" else []
        await store.commit(
            [facts.transition(name, commands=commands, count=number + 1)]
        )
        await store.commit(
            [facts.transition(name, number + 1, status=status, done=done)]
        )
    late = Command("e-1", "e", not_before=LATER + 9)
    await store.commit([facts.transition("e", commands=[late])])
    await store.commit([facts.transition("f", commands=["f-1"])])

    found = await store.parked(limit=100)
    [longest] = await store.parked(limit=1)

    assert [each.summary.execution_id for each in found] == ["e", "c", "b", "a"]
    assert [each.last_seq for each in found] == [1, 4, 3, 2]
    assert found[3].summary.status == "waiting"
    assert longest.summary.execution_id == "e"


async def test_a_command_that_became_due_is_not_parked(store, facts):
    command = Command("x-1", "x", not_before=LATER)
    await store.commit([facts.transition("x", commands=[command])])
    again = Command("x-1", "x")
    await store.commit([facts.transition("x", 1, commands=[again], release=["x-1"])])

    assert list(await store.parked(limit=10)) == []
