"""Backfills: the missing slots, a few at a time, stopped and resumed."""

from __future__ import annotations

import asyncio

import pytest
from servers import HELLO

from noetl.access.initiator import Initiator
from noetl.service.errors import RequestRefused

DAILY = {"cron": "0 2 * * *", "zone": "Europe/Berlin"}
RANGE = ("2026-01-01", "2026-04-11")
"""100 days, one of them with 23 hours."""


async def drive(node, backfill_id: str) -> object:
    """Until it is finished."""
    async with asyncio.timeout(60):
        while True:
            await node.standing.backfills.tick()
            found = await node.standing.backfills.get(backfill_id)
            assert len(found.progress.flights) <= found.at_once
            if found.state == "finished":
                return found
            await asyncio.sleep(0.005)


async def begin(node, at_once: int = 8, **options: bool):
    trigger, begin = await node.standing.arranging.get("t"), node.standing.backfills
    return await begin.begin(trigger, *RANGE, at_once, "ann", **options)


async def test_of_100_days_only_the_missing_ones_run(
    node_at, watch, tmp_path, database
) -> None:
    from noetl.service.triggers.admin import Fired

    async with node_at(tmp_path, watch, database) as node:
        await node.make(schedule=DAILY, workload={"day": "{{ slot.date }}"})
        trigger = await node.standing.arranging.get("t")
        there = ["2026-01-05", "2026-02-28", "2026-03-29"]
        for day in there:
            hour = "03" if day == "2026-03-29" else "02"
            fired = Fired(slot=f"{day}T{hour}:00")
            await node.standing.arranging.fire(trigger, fired, Initiator("ann"))
        backfill = await begin(node)

        done = await drive(node, backfill.backfill_id)

        progress = done.progress
        assert (done.total, progress.present, progress.started) == (100, 3, 97)
        assert (progress.completed, progress.failed) == (97, 0)
        slots = await node.slots()
        assert len(slots) == len(set(slots)) == 100
        again = await begin(node)
        done = await drive(node, again.backfill_id)
        assert (done.progress.present, done.progress.started) == (100, 0)


@pytest.mark.spec("S-72", "S-42")
async def test_slots_whose_inputs_do_not_fit_are_failed_executions(
    node_at, watch, tmp_path
) -> None:
    async with node_at(tmp_path, watch) as node:
        declared = "metadata: {inputs: {properties: {day: {type: integer}}}, "
        await node.register(HELLO.replace("metadata: {", declared))
        await node.make(schedule=DAILY, workload={"day": "{{ slot.date }}"})

        done = await drive(node, (await begin(node)).backfill_id)

        assert (done.progress.started, done.progress.failed) == (100, 100)
        first = (await node.executions())[0]
        assert first.error["kind"] == "inputs.invalid"


@pytest.mark.spec("S-77")
async def test_slots_that_failed_run_again_on_purpose(
    node_at, watch, tmp_path, database
) -> None:
    """Once each, also if the trigger has changed and the request was refused before."""
    async with node_at(tmp_path, watch, database) as node:
        declared = "metadata: {inputs: {properties: {day: {type: string}}}, "
        await node.register(HELLO.replace("metadata: {", declared))
        mended = {"day": "{{ slot.date }}"}
        await node.make(schedule=DAILY, workload={"day": "{{ slot | length }}"})
        await drive(node, (await begin(node)).backfill_id)
        await node.make(schedule=DAILY, workload=mended, replace=True)

        plain = await drive(node, (await begin(node)).backfill_id)
        again = await drive(node, (await begin(node, failed=True)).backfill_id)
        twice = await drive(node, (await begin(node, failed=True)).backfill_id)

        assert (plain.progress.present, plain.progress.started) == (100, 0)
        assert (again.progress.present, again.progress.completed) == (0, 100)
        assert (twice.progress.present, twice.progress.started) == (100, 0)
        assert len(await node.executions()) == 200
        slots = await node.slots()
        assert len(slots) == 2 * len(set(slots)) == 200


@pytest.mark.spec("S-77")
async def test_two_servers_repeat_each_failed_slot_once(
    node_at, watch, tmp_path, postgres
) -> None:
    async with (
        node_at(tmp_path / "one", watch, postgres) as one,
        node_at(tmp_path / "two", watch, postgres) as two,
    ):
        declared = "metadata: {inputs: {properties: {day: {type: string}}}, "
        await one.register(HELLO.replace("metadata: {", declared))
        await one.make(schedule=DAILY, workload={"day": "{{ slot | length }}"})
        await drive(one, (await begin(one)).backfill_id)
        await one.make(
            schedule=DAILY, workload={"day": "{{ slot.date }}"}, replace=True
        )
        first = await begin(one, failed=True)
        second = await begin(two, failed=True)

        done, beside = await asyncio.gather(
            drive(one, first.backfill_id), drive(two, second.backfill_id)
        )

        assert done.progress.failed == beside.progress.failed == 0
        assert len(await one.executions()) == 200


async def test_it_is_stopped_and_resumed(node_at, watch, tmp_path) -> None:
    """Also by another process: how far it is, is stored."""
    async with node_at(tmp_path, watch) as node:
        await node.make(schedule=DAILY)
        backfill_id = (await begin(node, 3)).backfill_id
        backfills = node.standing.backfills
        await backfills.tick()
        await backfills.stop(backfill_id)
        assert (await backfills.stop(backfill_id)).state == "stopped"
        await node.ended(3)
        for _ in range(3):
            await backfills.tick()
        stopped = await backfills.get(backfill_id)
        assert (stopped.progress.started, stopped.progress.completed) == (3, 3)
    async with node_at(tmp_path, watch) as node:
        await node.standing.backfills.tick()
        assert len(await node.slots()) == 3
        await node.standing.backfills.resume(backfill_id)

        done = await drive(node, backfill_id)

        assert done.progress.completed == 100
        slots = await node.slots()
        assert len(slots) == len(set(slots)) == 100
        with pytest.raises(RequestRefused, match="the backfill is finished"):
            await node.standing.backfills.stop(backfill_id)


async def test_two_servers_share_one(node_at, watch, tmp_path, postgres) -> None:
    async with (
        node_at(tmp_path / "one", watch, postgres) as one,
        node_at(tmp_path / "two", watch, postgres) as two,
    ):
        await one.make(schedule=DAILY)
        backfill_id = (await begin(one)).backfill_id

        done, _ = await asyncio.gather(drive(one, backfill_id), drive(two, backfill_id))

        slots = await one.slots()
        assert len(slots) == len(set(slots)) == 100
        assert done.progress.started == 100


@pytest.mark.parametrize("part", ["ensure", "move"])
async def test_a_server_that_dies_in_between_leaves_nothing_out(
    node_at, watch, tmp_path, part, monkeypatch
) -> None:
    async with node_at(tmp_path, watch) as node:
        await node.make(schedule=DAILY)
        backfill_id = (await begin(node)).backfill_id
        backfills, calls = node.standing.backfills, 0
        owner = backfills._firing if part == "ensure" else node.backend.triggers
        real = getattr(owner, part)

        async def die_now_and_then(*given, **options):
            nonlocal calls
            calls += 1
            if calls % 13 == 3:
                raise RuntimeError("killed")
            return await real(*given, **options)

        monkeypatch.setattr(owner, part, die_now_and_then)
        done = await drive(node, backfill_id)

        slots = await node.slots()
        assert len(slots) == len(set(slots)) == 100
        assert done.progress.started == 100


@pytest.mark.parametrize(
    ("since", "until", "message"),
    [
        ("yesterday", None, "is not a time"),
        ("2026-05-01", "2026-06-01", "ends in the future"),
        ("2026-04-02", "2026-04-01", "there are no slots"),
        ("1900-01-01", None, "more than 10,000 slots"),
    ],
)
async def test_a_range_that_is_none(
    node_at, watch, tmp_path, since, until, message
) -> None:
    async with node_at(tmp_path, watch, work=False) as node:
        await node.make(schedule=DAILY)
        trigger = await node.standing.arranging.get("t")
        with pytest.raises(RequestRefused, match=message) as caught:
            await node.standing.backfills.begin(trigger, since, until, 4, "ann")

        assert caught.value.kind == "backfill.range"


async def test_only_a_schedule_has_slots(node_at, watch, tmp_path) -> None:
    async with node_at(tmp_path, watch, work=False) as node:
        await node.make(webhook={})
        trigger = await node.standing.arranging.get("t")
        with pytest.raises(RequestRefused, match="is not a schedule"):
            await node.standing.backfills.begin(trigger, "2026-01-01", None, 4, "ann")
