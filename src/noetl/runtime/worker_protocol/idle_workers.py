"""Idle workers: those of this process, and remote workers whose claims wait."""

from __future__ import annotations

from asyncio import Event
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from noetl.runtime.dispatcher import Prefetch, Worker, WorkItem


class WaitingWorker:
    """A remote worker whose claim waits for an answer, and which has free slots.

    ``woken`` is set when it gets work. Work is ``promised`` during its transaction:
    until its end the claim must not be answered. Its leases begin at ``reserved_at`` by
    this ``clock``, or later.
    """

    def __init__(
        self,
        owner: str,
        slots: int,
        woken: Event,
        is_gone: Callable[[], bool],
        clock: Callable[[], float],
    ) -> None:
        self.reserved_at = clock()
        self._clock = clock
        self.works: list[WorkItem] = []
        self.promised = 0
        self._owner = owner
        self._slots = slots
        self._woken = woken
        self._is_gone = is_gone

    def reserve(self) -> str | None:
        if self.promised + len(self.works) >= self._slots or self._is_gone():
            return None
        if not self.promised and not self.works:
            self.reserved_at = self._clock()
        self.promised += 1
        return self._owner

    def take(self, work: WorkItem | None) -> None:
        self.promised -= 1
        if work is not None:
            self.works.append(work)
        self._woken.set()

    def revoke(self, commands: Sequence[str]) -> None:
        """The worker reads it in the reply to its next heartbeat."""

    def stop(self, execution_id: str) -> None:
        """The worker reads it in the reply to its next heartbeat."""


class IdleWorkers:
    """Finds a worker for work that begins. ``pool`` is that of local workers."""

    def __init__(self, pool: str) -> None:
        self._pool = pool
        self._workers: list[Worker] = []
        self.waiting: dict[WaitingWorker, str] = {}

    def register(self, worker: Worker) -> None:
        self._workers.append(worker)

    @contextmanager
    def hold(self, waiting: WaitingWorker, pool: str) -> Iterator[None]:
        """Lets the worker get work of this pool inside of the context."""
        self.waiting[waiting] = pool
        try:
            yield
        finally:
            del self.waiting[waiting]

    def find_free(self, pool: str) -> tuple[Worker, Prefetch] | None:
        """A worker that keeps a slot free from now on: the one that waited longest."""
        mine = self._workers if pool == self._pool else []
        others = [each for each, theirs in self.waiting.items() if theirs == pool]
        for worker in [*mine, *others]:
            owner = worker.reserve()
            if owner is not None:
                return worker, Prefetch(owner, pool)
        return None

    def revoke(self, commands: Sequence[str]) -> None:
        """Stops what still runs of commands that have ended."""
        for worker in self._workers:
            worker.revoke(commands)

    def stop(self, execution_id: str) -> None:
        """Stops the tools of a cancelled execution."""
        for worker in self._workers:
            worker.stop(execution_id)
