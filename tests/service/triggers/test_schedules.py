"""Schedules on a clock that tests set: outages, races, crashes, overlap."""

from __future__ import annotations

import asyncio
from datetime import datetime
from functools import partial

import pytest
from servers import ASKS, HELLO

from noetl.access.initiator import Initiator
from noetl.engine.waits.signals import receive
from noetl.errors import StoreError
from noetl.service.executions.path_limits import PathLimits
from noetl.service.triggers.admin import Fired

MINUTE, HOUR = 60.0, 3600.0
EVERY_10 = {"cron": "*/10 * * * *"}


def at(text: str) -> float:
    return datetime.fromisoformat(text).timestamp()


def times(slots: list[str]) -> list[str]:
    return [slot[11:16] for slot in slots]


@pytest.mark.spec("SRV-04")
async def test_a_slot_becomes_an_execution(node_at, watch, tmp_path, database) -> None:
    async with node_at(tmp_path, watch, database) as node:
        await node.make(
            schedule={"cron": "30 14 * * *", "zone": "Europe/Berlin"},
            workload={"day": "{{ slot.date }}", "at": "{{ slot.local }}"},
        )
        await node.standing.tick()
        assert await node.slots() == []

        watch.time += 30 * MINUTE
        await node.standing.tick()
        await node.standing.tick()

        assert await node.slots() == ["2026-05-01T12:30:00Z"]
        [ended] = await node.ended(1)
        document = await node.standing.arranging._looking.document(ended.execution_id)
        workload = {"day": "2026-05-01", "at": "2026-05-01T14:30:00+02:00"}
        assert (document["status"], document["workload"]) == ("completed", workload)
        trigger = await node.standing.arranging.get("t")
        assert trigger.last_execution == ended.execution_id


ALERT = {
    "playbook": "tests/alarm",
    "workload": {
        "text": "{{ trigger.name }}: {{ alert.slot }}",
        "seconds": "{{ alert.late_seconds }}",
        "left_out": "{{ alert.left_out }}",
        "execution": "{{ alert.execution_id }}",
    },
    "after": "5m",
}


async def alerts(node) -> list[dict[str, object]]:
    found = []
    for each in await node.executions():
        if each.playbook["path"] == "tests/alarm":
            looking = node.standing.arranging._looking
            document = await looking.document(each.execution_id)
            found.append(document["workload"])
    return found


async def test_slots_that_are_late_or_left_out_alert_once(
    node_at, watch, tmp_path, database
) -> None:
    async with node_at(tmp_path, watch, database) as node:
        await node.register(HELLO.replace("hello", "alarm"))
        await node.make(schedule={**EVERY_10, "alert": ALERT})
        watch.time += 10 * MINUTE
        await node.standing.tick()
        assert (await alerts(node), node.late) == ([], 0), "it is on time"

        watch.time += 37 * MINUTE
        await node.standing.tick()
        await node.standing.tick()

        [_, slot] = [s for s in await node.slots() if not s.startswith("alert:")]
        started = [e for e in await node.executions() if e.playbook["name"] == "hello"]
        assert slot == "2026-05-01T12:40:00Z"
        assert await alerts(node) == [
            {
                "text": "t: 2026-05-01T12:30:00Z",
                "seconds": 17 * 60,
                "left_out": 2,
                "execution": None,
            },
            {
                "text": "t: 2026-05-01T12:40:00Z",
                "seconds": 7 * 60,
                "left_out": 0,
                "execution": started[-1].execution_id,
            },
        ]
        assert (node.late, node.left_out) == (1, 2)


async def test_an_alert_that_cannot_start_does_not_stop_the_schedule(
    node_at, watch, tmp_path
) -> None:
    async with node_at(tmp_path, watch) as node:
        alert = {"playbook": "tests/missing", "after": "1s"}
        await node.make(schedule={**EVERY_10, "alert": alert})
        for _ in range(2):
            watch.time += 11 * MINUTE
            await node.standing.tick()

        slots = [s for s in await node.slots() if not s.startswith("alert:")]
        assert times(slots) == ["12:10", "12:20"]


@pytest.mark.spec("S-77")
async def test_a_slot_has_the_state_of_its_latest_execution(
    node_at, watch, tmp_path
) -> None:
    """Also where slots must not overlap."""
    async with node_at(tmp_path, watch) as node:
        arranging = node.standing.arranging
        plan = {**EVERY_10, "overlap": False}
        await node.register(ASKS)
        bad = {"path": "{{ slot.time / 2 }}"}
        await node.make(schedule=plan, workload=bad, playbook="tests/asks")
        watch.time += 10 * MINUTE
        await node.standing.tick()
        [failed] = await node.ended(1)
        await node.make(schedule=plan, playbook="tests/asks", replace=True)

        trigger = await arranging.get("t")
        fired = Fired(slot="2026-05-01T12:10:00+00:00", again=failed.execution_id)
        again = await arranging.fire(trigger, fired, Initiator("ann"))
        watch.time += 10 * MINUTE
        await node.standing.tick()

        current = await arranging.current(trigger)
        assert failed.status == "failed"
        assert current.last_execution == again.execution_id != failed.execution_id
        assert len(await node.executions()) == 2, "the slot still runs"


@pytest.mark.parametrize(
    ("schedule", "found"),
    [
        ({"catch_up": "none"}, []),
        ({"catch_up": "last"}, ["13:00"]),
        ({"catch_up": "all", "most": 3}, ["12:40", "12:50", "13:00"]),
    ],
)
async def test_a_server_that_was_down_for_an_hour(
    node_at, watch, tmp_path, schedule, found
) -> None:
    async with node_at(tmp_path, watch, work=False) as node:
        await node.make(schedule={**EVERY_10, **schedule})
    watch.time += HOUR + 2 * MINUTE
    async with node_at(tmp_path, watch, work=False) as node:
        for _ in range(3):
            await node.standing.tick()
        assert times(await node.slots()) == found

        watch.time += 8 * MINUTE
        await node.standing.tick()

        assert times(await node.slots()) == [*found, "13:10"]


async def test_across_both_changes_of_the_clock(node_at, watch, tmp_path) -> None:
    """It ticks every 10 minutes through two nights in Berlin: one slot in each."""
    async with node_at(tmp_path, watch, work=False) as node:
        for night, slots in (
            ("2026-03-28T20:00:00Z", ["2026-03-29T01:00:00Z"]),
            ("2026-10-24T20:00:00Z", ["2026-10-25T00:30:00Z"]),
        ):
            watch.time = at(night)
            schedule = {"cron": "30 2 * * *", "zone": "Europe/Berlin"}
            name = night[:10]
            await node.make(name=name, schedule=schedule)
            before = await node.slots()
            for _ in range(12 * 6):
                watch.time += 10 * MINUTE
                await node.standing.tick()
            await node.standing.arranging.remove(name)

            assert (await node.slots())[len(before) :] == slots


async def test_servers_that_tick_together_start_one(
    node_at, watch, tmp_path, postgres
) -> None:
    async with (
        node_at(tmp_path / "one", watch, postgres, work=False) as one,
        node_at(tmp_path / "two", watch, postgres, work=False) as two,
    ):
        await one.make(schedule={"cron": "* * * * *", "catch_up": "all"})
        for _ in range(10):
            watch.time += MINUTE
            await asyncio.gather(
                *(node.standing.tick() for node in (one, two, one, two))
            )

        slots = await one.slots()

        assert len(slots) == 10
        assert len(set(slots)) == 10


@pytest.mark.parametrize("when", ["planned", "started"])
async def test_a_server_that_dies_around_a_fire(
    node_at, watch, tmp_path, database, when, monkeypatch
) -> None:
    """After the decision, before the start; after the start, before that is noted."""

    async def die(*_: object) -> bool:
        raise StoreError("killed")

    async with node_at(tmp_path, watch, database, work=False) as node:
        await node.make(schedule=EVERY_10)
        watch.time += 10 * MINUTE
        with monkeypatch.context() as patch:
            if when == "planned":
                patch.setattr(node.standing.schedules._firing, "ensure", die)
            else:
                patch.setattr(node.backend.triggers, "settle", die)
            await node.standing.tick()
        assert len(await node.slots()) == (when == "started")
    async with node_at(tmp_path, watch, database, work=False) as node:
        await node.standing.tick()
        await node.standing.tick()

        assert times(await node.slots()) == ["12:10"]
        assert (await node.standing.arranging.get("t")).pending == ()


async def test_without_overlap_the_next_waits(node_at, watch, tmp_path) -> None:
    async with node_at(tmp_path, watch) as node:
        await node.register(ASKS)
        schedule = {**EVERY_10, "overlap": False, "catch_up": "all"}
        await node.make(playbook="tests/asks", schedule=schedule)
        for _ in range(3):
            watch.time += 10 * MINUTE
            await node.standing.tick()
            assert times(await node.slots()) == ["12:10"]

        for count in (1, 2, 3):
            [last] = (await node.executions())[-1:]
            await node.orchestrator.load(last.execution_id)  # what waits may rest
            go = partial(receive, name="go", data=None)
            await node.orchestrator.decide(last.execution_id, go)
            await node.ended(count)
            await node.standing.tick()
            await node.standing.tick()

        assert times(await node.slots()) == ["12:10", "12:20", "12:30"]


async def test_a_pause_leaves_out_what_is_due_in_it(node_at, watch, tmp_path) -> None:
    async with node_at(tmp_path, watch, work=False) as node:
        await node.make(schedule={**EVERY_10, "catch_up": "all"})
        await node.standing.arranging.pause("t")
        watch.time += HOUR
        await node.standing.tick()
        await node.standing.arranging.resume("t")
        await node.standing.tick()
        assert await node.slots() == []

        watch.time += 10 * MINUTE
        await node.standing.tick()

        assert times(await node.slots()) == ["13:10"]


@pytest.mark.spec("S-43", "SRV-05")
async def test_a_slot_takes_the_latest_version_or_the_one_that_is_named(
    node_at, watch, tmp_path
) -> None:
    async with node_at(tmp_path, watch, work=False) as node:
        await node.make(name="latest", schedule=EVERY_10)
        await node.make(name="first", playbook="tests/hello@1", schedule=EVERY_10)
        await node.register(HELLO.replace("result: 1", "result: 2"))
        watch.time += 10 * MINUTE
        await node.standing.tick()

        found = {}
        for each in await node.executions():
            [requested] = await node.store.read(each.execution_id, limit=1)
            name = requested.payload["caller"]["trigger"]["name"]
            found[name] = each.playbook["version"]
            assert each.playbook["sha256"]
        assert found == {"latest": "2", "first": "1"}


@pytest.mark.spec("S-42")
async def test_what_cannot_run_is_on_record_and_does_not_come_again(
    node_at, watch, tmp_path
) -> None:
    async with node_at(tmp_path, watch, work=False) as node:
        await node.make(schedule=EVERY_10, workload={"x": "{{ slot.date.a.b + 1 }}"})
        watch.time += 10 * MINUTE
        await node.standing.tick()
        await node.standing.tick()

        [failed] = await node.executions()
        assert failed.status == "failed"
        assert failed.error is not None
        assert failed.error["kind"] == "trigger.inputs"
        assert "workload.x: " in failed.error["message"]


async def test_one_that_is_broken_stops_no_other(
    node_at, watch, tmp_path, monkeypatch, caplog
) -> None:
    async with node_at(tmp_path, watch, work=False) as node:
        await node.make(name="a", schedule=EVERY_10)
        await node.make(name="b", schedule=EVERY_10)
        firing = node.standing.schedules._firing
        ensure = firing.ensure

        async def break_a(definition, *given):
            if definition.name == "a":
                raise RuntimeError("broken")
            return await ensure(definition, *given)

        monkeypatch.setattr(firing, "ensure", break_a)
        watch.time += 10 * MINUTE
        await node.standing.tick()

        assert len(await node.slots()) == 1
        assert "a trigger failed" in caplog.text


async def test_by_hand_a_slot_is_the_same_slot(node_at, watch, tmp_path) -> None:
    from noetl.service.errors import RequestRefused
    from noetl.service.triggers.admin import Fired

    async with node_at(tmp_path, watch, work=False) as node:
        await node.make(schedule=EVERY_10)
        arranging = node.standing.arranging
        trigger = await arranging.get("t")
        fired = await arranging.fire(
            trigger, Fired(slot="2026-05-01T12:10"), Initiator("ann")
        )
        watch.time += 10 * MINUTE
        await node.standing.tick()

        assert times(await node.slots()) == ["12:10"]
        again = await arranging.fire(
            trigger, Fired(slot="2026-05-01T12:10:00Z"), Initiator("ann")
        )
        assert (again.execution_id, again.repeated) == (fired.execution_id, True)
        with pytest.raises(RequestRefused, match="is not a slot of"):
            await arranging.fire(
                trigger, Fired(slot="2026-05-01T12:11"), Initiator("ann")
            )


async def test_a_slot_beyond_the_limit_of_its_path_waits_for_room(
    node_at, watch, tmp_path, caplog
) -> None:
    async with node_at(tmp_path, watch) as node:
        none = [("tests/hello", 0), ("tests/alarm", 0)]
        limits = PathLimits(none, node.store, watch)
        node.standing.arranging._starting._limits = limits
        await node.register(HELLO.replace("hello", "alarm"))
        alert = {"playbook": "tests/alarm", "after": "5m"}
        await node.make(schedule={**EVERY_10, "alert": alert})
        watch.time += 10 * MINUTE
        await node.standing.tick()
        assert await node.slots() == []
        assert "tries again: 0 executions of tests/hello" in caplog.text

        limits._limits["tests/hello"] = 1
        watch.time += 9 * MINUTE
        await node.standing.tick()

        assert await node.slots() == [
            "2026-05-01T12:10:00Z",
            "alert:2026-05-01T12:10:00Z",
        ]
