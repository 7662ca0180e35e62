"""The registry of workers: what a server remembers, saves and lists."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from noetl.errors import StoreError
from noetl.ports import Backlog
from noetl.ports.access import WorkerRecord
from noetl.runtime.worker_protocol import worker_registry
from noetl.runtime.worker_protocol.worker_registry import (
    ALIVE_S,
    FORGET_AFTER_S,
    KEPT_S,
    MAX_DELAYED,
    SAVE_INTERVAL_S,
    PoolLine,
    PoolQueries,
    WorkerRegistry,
)


class Clock:
    time = 1_000_000.0

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        raise NotImplementedError


class Records:
    """Records of all servers, in memory."""

    def __init__(self) -> None:
        self.saved: list[WorkerRecord] = []
        self.is_down = False

    async def note(self, heard: WorkerRecord) -> None:
        if self.is_down:
            raise StoreError("store.unavailable", "down")
        self.saved.append(heard)

    async def seen(self, *, since: float) -> Sequence[WorkerRecord]:
        latest = {each.worker: each for each in self.saved}
        return [each for each in latest.values() if each.seen_at >= since]

    async def forget(self, *, before: float) -> None:
        self.saved = [each for each in self.saved if each.seen_at >= before]


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def records() -> Records:
    return Records()


@pytest.fixture
def registry(records: Records, clock: Clock) -> WorkerRegistry:
    return WorkerRegistry(records, clock)


async def test_a_claim_counts_slots_that_are_not_free_as_running(
    registry: WorkerRegistry,
) -> None:
    await registry.beats("w", "p", 4, 0, "10.0.0.1")
    await registry.claims("w", "p", 1, "10.0.0.1")

    [found] = await registry.list_all()
    assert (found.slots, found.running) == (4, 3)


async def test_a_worker_is_saved_at_most_once_per_interval(
    registry: WorkerRegistry, records: Records, clock: Clock
) -> None:
    await registry.beats("w", "p", 4, 0, "a")
    clock.time += SAVE_INTERVAL_S - 1
    await registry.beats("w", "p", 4, 2, "a")
    assert [each.running for each in records.saved] == [0]

    clock.time += 1
    await registry.beats("w", "p", 4, 3, "a")
    assert [each.running for each in records.saved] == [0, 3]


async def test_the_latest_record_of_all_servers_is_listed(
    registry: WorkerRegistry, records: Records, clock: Clock
) -> None:
    other = WorkerRegistry(records, clock)
    await registry.beats("w", "p", 4, 1, "a")
    await registry.beats("v", "q", 1, 0, "a")
    clock.time += SAVE_INTERVAL_S
    await other.beats("w", "p", 4, 2, "b")

    found = await registry.list_all()
    assert [(each.worker, each.running) for each in found] == [("w", 2), ("v", 0)]


async def test_a_silent_worker_is_left_out_and_deleted(
    registry: WorkerRegistry, records: Records, clock: Clock
) -> None:
    await registry.beats("silent", "p", 4, 1, "a")
    clock.time += FORGET_AFTER_S + 1
    assert await registry.list_all() == []

    await registry.beats("w", "p", 4, 1, "a")
    assert [each.worker for each in records.saved] == ["w"]


async def test_a_store_that_is_down_does_not_fail_a_request(
    registry: WorkerRegistry, records: Records
) -> None:
    records.is_down = True
    await registry.beats("w", "p", 4, 1, "a")

    assert [each.worker for each in await registry.list_all()] == ["w"]


async def test_a_record_of_an_hour_is_listed_and_then_deleted_at_all_servers(
    registry: WorkerRegistry, records: Records, clock: Clock
) -> None:
    await registry.beats("old", "p", 4, 1, "a")
    clock.time += FORGET_AFTER_S
    await registry.beats("w", "p", 4, 1, "a")
    assert [each.worker for each in await registry.list_all()] == ["old", "w"]
    assert [each.worker for each in records.saved] == ["old", "w"]

    clock.time += SAVE_INTERVAL_S
    await registry.beats("w", "p", 4, 1, "a")
    assert [each.worker for each in records.saved] == ["w", "w"]


async def test_a_new_worker_takes_the_place_of_a_silent_one(
    registry: WorkerRegistry, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_registry, "MAX_WORKERS", 1)
    await registry.beats("silent", "p", 1, 0, "a")
    clock.time += FORGET_AFTER_S + 1
    for _ in range(2):
        await registry.beats("w", "p", 1, 0, "a")

    assert [each.worker for each in await registry.list_all()] == ["w"]


class Queue:
    """The counts of a queue, and how often they were asked for."""

    asked = 0

    async def count_commands(self) -> dict[str, Backlog]:
        self.asked += 1
        return {"p": Backlog(2, 1)}

    async def count_delayed(self, *, limit: int) -> dict[str, int]:
        assert limit == MAX_DELAYED
        return {"late": 7}


async def test_pools_have_the_counts_of_the_queue_and_of_workers_seen_in_a_minute(
    registry: WorkerRegistry, clock: Clock
) -> None:
    await registry.beats("silent", "p", 9, 0, "a")
    clock.time += 1
    await registry.beats("one", "p", 4, 0, "a")
    await registry.beats("two", "p", 2, 0, "a")
    await registry.beats("three", "q", 1, 0, "a")
    clock.time += ALIVE_S

    assert await PoolQueries(Queue(), registry, clock).list_all() == [
        PoolLine("late", ready=0, delayed=7, leased=0, workers=0, slots=0),
        PoolLine("p", ready=2, delayed=0, leased=1, workers=2, slots=6),
        PoolLine("q", ready=0, delayed=0, leased=0, workers=1, slots=1),
    ]


async def test_the_counts_of_pools_are_kept_for_a_second(
    registry: WorkerRegistry, clock: Clock
) -> None:
    queue = Queue()
    pools = PoolQueries(queue, registry, clock)
    asked = []
    for seconds in (0, 0, KEPT_S / 2, KEPT_S / 2, -KEPT_S / 2):
        clock.time += seconds
        await pools.list_all()
        asked.append(queue.asked)

    assert asked == [1, 1, 1, 2, 3]


async def test_the_number_of_workers_is_bounded(
    registry: WorkerRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker_registry, "MAX_WORKERS", 2)
    for name in ("a", "b", "c"):
        await registry.beats(name, "p", 1, 0, "a")

    assert [each.worker for each in await registry.list_all()] == ["a", "b"]
