"""Leases of the command queue: who may report, renewals, expiry and grants."""

from __future__ import annotations

import msgspec
import pytest
from store_calls import TTL, claim, claimed, length

from noetl.errors import LeaseLost, StoreError
from noetl.ports import CommandRow, Grant, Lease

pytestmark = pytest.mark.spec("S-62")


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
async def test_only_the_owner_of_a_lease_may_report(store, facts, stale):
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
async def test_an_expired_lease_keeps_its_owner_until_it_is_claimed(store, facts):
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


async def test_a_command_that_has_ended_has_no_row(store, facts):
    await store.commit([facts.transition("x", commands=["x-1"])])
    [lease] = await claim(store)
    await store.commit([facts.transition("x", 1, leases=[lease], done=["x-1"])])

    assert await store.commands(["x-1"]) == {}
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


async def test_a_report_is_granted_work_of_its_own_execution_only(store, facts):
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
