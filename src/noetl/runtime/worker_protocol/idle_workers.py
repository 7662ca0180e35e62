"""Who can take a pipeline at once: workers of this process, and who waits for one."""

from __future__ import annotations

from asyncio import Event
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from noetl.runtime.dispatch import Worker
from noetl.runtime.live import Wanting, Work


class Waiting:
    """A worker elsewhere whose claim waits for an answer: it is a worker with free
    slots meanwhile. ``heard`` is set by what it gets.

    It may be ``promised`` something whose transaction is under way: then its claim must
    not be answered yet.
    """

    def __init__(
        self, owner: str, slots: int, heard: Event, is_gone: Callable[[], bool]
    ) -> None:
        self.works: list[Work] = []
        self.promised = 0
        self._owner = owner
        self._slots = slots
        self._heard = heard
        self._is_gone = is_gone

    def reserve(self) -> str | None:
        if self.promised + len(self.works) >= self._slots or self._is_gone():
            return None
        self.promised += 1
        return self._owner

    def take(self, work: Work | None) -> None:
        self.promised -= 1
        if work is not None:
            self.works.append(work)
        self._heard.set()

    def revoke(self, commands: Sequence[str]) -> None:
        """It hears of that with its next beat."""

    def stop(self, execution_id: str) -> None:
        """It hears of that with its next beat."""


class Staff:
    """``pool`` is that of the workers of this process."""

    def __init__(self, pool: str) -> None:
        self._pool = pool
        self._workers: list[Worker] = []
        self.waiting: dict[Waiting, str] = {}

    def employ(self, worker: Worker) -> None:
        self._workers.append(worker)

    @contextmanager
    def hold(self, waiting: Waiting, pool: str) -> Iterator[None]:
        """It can be given work of this pool until then."""
        self.waiting[waiting] = pool
        try:
            yield
        finally:
            del self.waiting[waiting]

    def find_free(self, pool: str) -> tuple[Worker, Wanting] | None:
        """One that keeps a slot free from now on: who has waited longest."""
        mine = self._workers if pool == self._pool else []
        others = [each for each, theirs in self.waiting.items() if theirs == pool]
        for worker in [*mine, *others]:
            owner = worker.reserve()
            if owner is not None:
                return worker, Wanting(owner, pool)
        return None

    def revoke(self, commands: Sequence[str]) -> None:
        """These are over: stop what still runs of them."""
        for worker in self._workers:
            worker.revoke(commands)

    def stop(self, execution_id: str) -> None:
        """The execution is cancelled: stop its tools."""
        for worker in self._workers:
            worker.stop(execution_id)
