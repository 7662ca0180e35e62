"""Lost rows: resuming makes them again, and a sweep finds executions without any."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from open_execution import NAME

from noetl.ports import ConcurrencySlot
from noetl.runtime.executions import stalls
from noetl.service.executions.control import ExecutionControl

BOTH = pytest.mark.parametrize("store", ["sqlite", "postgres"], indirect=True)
LOST = "DELETE FROM command", "DELETE FROM timer"


async def lose_rows(world: Any, write: Any) -> None:
    for sql in LOST:
        await write(sql)
    world.orchestrator.cache.drop(NAME)
    assert {each[0] for each in await world.findings()} >= {"I-18"}


@BOTH
async def test_a_resumed_execution_has_all_its_rows_again(
    world: Any, write: Any
) -> None:
    control = ExecutionControl(world.orchestrator)
    before = await world.store.records(NAME)
    await control.pause(NAME)
    await lose_rows(world, write)

    await control.resume(NAME)

    assert await world.findings() == []
    after = await world.store.records(NAME)
    names = sorted(each.command_id for each in before.commands)
    assert sorted(each.command_id for each in after.commands) == names
    works = await world.orchestrator.assignment.claim("other", 9)
    assert len(works) == 2, "the third one waits"


@BOTH
async def test_an_execution_that_is_taken_back_has_all_its_rows_again(
    world: Any, write: Any
) -> None:
    line = await world.store.summary(NAME)
    await world.store.set_status(msgspec.structs.replace(line, status="quarantined"))
    await lose_rows(world, write)

    await ExecutionControl(world.orchestrator).resume(NAME)

    assert await world.findings() == []


@BOTH
async def test_resuming_takes_no_lease_from_a_worker(world: Any) -> None:
    control = ExecutionControl(world.orchestrator)
    before = await world.store.held("w")
    assert before

    await control.pause(NAME)
    await control.resume(NAME)

    assert await world.store.held("w") == before
    assert await world.findings() == []


@BOTH
async def test_an_execution_without_rows_is_found_and_mended(
    world: Any, write: Any, monkeypatch: pytest.MonkeyPatch, caplog: Any
) -> None:
    """I-45: log and metric say it aloud."""
    monkeypatch.setattr(stalls, "LOOK_EVERY_S", 0.0)
    monkeypatch.setattr(world.orchestrator.stalls, "_next", 0.0)
    await world.orchestrator.stalls.look()
    assert (await world.store.idle(after=0, limit=9))[0] == []
    await lose_rows(world, write)

    await world.orchestrator.stalls.look()
    assert world.orchestrator.stalls.count == 0, "not at the first look"
    monkeypatch.setattr(stalls, "STALLED_AFTER_S", 0.0)
    await world.orchestrator.stalls.look()

    assert world.orchestrator.stalls.count == 1
    assert f"invariant.stalled: {NAME}: it is open at event" in caplog.text
    assert await world.findings() == []


async def test_open_executions_without_rows_are_found_page_by_page(
    store: Any, facts: Any
) -> None:
    line = ConcurrencySlot("k", 1, queued=True)
    await store.commit(
        [
            facts.transition("idle-1"),
            facts.transition("works", commands=["works-1"]),
            facts.transition("waits", status="waiting", timers={"t": 50.0}),
            facts.transition("idle-2", status="waiting", count=2),
            facts.transition("over", status="completed"),
            facts.transition("paused", status="paused"),
            facts.transition("line", status="waiting", slot=line),
            facts.transition("ended", commands=["ended-1"]),
        ]
    )
    leases = await store.claim("w", pool="default", slots=9, now=1.0, ttl=9.0)
    [lease] = [each for each in leases if each.execution_id == "ended"]
    await store.commit([facts.transition("ended", 1, leases=[lease], done=["ended-1"])])
    await store.sweep(now=0.0)

    found, after = [], 0
    for _ in range(9):
        some, after = await store.idle(after=after, limit=3)
        found += some
        if not after:
            break

    assert sorted(found) == [("ended", 2), ("idle-1", 1), ("idle-2", 2)]
