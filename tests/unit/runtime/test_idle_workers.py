"""Idle workers: which one gets the work that begins."""

from __future__ import annotations

from asyncio import Event
from typing import Any

from noetl.runtime.worker_protocol.idle_workers import IdleWorkers, WaitingWorker


def waiting(owner: str, slots: int = 1, *, is_gone: bool = False) -> WaitingWorker:
    return WaitingWorker(owner, slots, Event(), lambda: is_gone, lambda: 0.0)


class LocalWorker:
    """A worker of this process; it notes what it must stop."""

    def __init__(self, owner: str | None) -> None:
        self.owner = owner
        self.revoked: list[str] = []
        self.stopped: list[str] = []

    def reserve(self) -> str | None:
        return self.owner

    def take(self, work: Any) -> None:
        raise NotImplementedError

    def revoke(self, commands: Any) -> None:
        self.revoked += commands

    def stop(self, execution_id: str) -> None:
        self.stopped.append(execution_id)


def owner_of(found: Any) -> str | None:
    return None if found is None else found[1].owner


def test_a_worker_reserves_at_most_its_free_slots() -> None:
    worker = waiting("w", slots=2)

    assert [worker.reserve() for _ in range(3)] == ["w", "w", None]


async def test_a_transaction_without_work_frees_the_slot_and_wakes_the_claim() -> None:
    woken = Event()
    worker = WaitingWorker("w", 1, woken, lambda: False, lambda: 0.0)
    worker.reserve()
    worker.take(None)

    assert woken.is_set()
    assert (worker.works, worker.promised) == ([], 0)
    assert worker.reserve() == "w"


def test_a_lease_is_as_old_as_the_first_reservation_that_was_not_in_vain() -> None:
    now = [1.0]
    worker = WaitingWorker("w", 2, Event(), lambda: False, lambda: now[0])
    now[0] = 2.0
    worker.reserve()
    worker.take(None)
    for now[0] in (3.0, 4.0):
        worker.reserve()

    assert worker.reserved_at == 3.0


def test_a_disconnected_worker_gets_no_work() -> None:
    assert waiting("w", is_gone=True).reserve() is None


def test_the_longest_waiting_worker_of_the_pool_is_found() -> None:
    idle = IdleWorkers("default")
    with (
        idle.hold(waiting("other"), "gpu"),
        idle.hold(waiting("first"), "default"),
        idle.hold(waiting("second"), "default"),
    ):
        found = [owner_of(idle.find_free("default")) for _ in range(3)]

    assert found == ["first", "second", None]
    assert not idle.waiting


def test_local_workers_come_first_and_serve_their_own_pool() -> None:
    idle = IdleWorkers("default")
    idle.register(LocalWorker("local"))
    with idle.hold(waiting("remote"), "default"), idle.hold(waiting("gpu"), "gpu"):
        assert owner_of(idle.find_free("default")) == "local"
        assert owner_of(idle.find_free("gpu")) == "gpu"


def test_a_busy_local_worker_is_skipped() -> None:
    idle = IdleWorkers("default")
    idle.register(LocalWorker(None))
    with idle.hold(waiting("remote"), "default"):
        assert owner_of(idle.find_free("default")) == "remote"


def test_local_workers_are_asked_to_stop() -> None:
    idle, worker = IdleWorkers("default"), LocalWorker("local")
    idle.register(worker)
    idle.revoke(["c-1", "c-2"])
    idle.stop("e-1")

    assert (worker.revoked, worker.stopped) == (["c-1", "c-2"], ["e-1"])
