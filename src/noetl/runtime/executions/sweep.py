"""Expires leases and deadlines, and serves the timers that are due."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

from noetl.engine.decide import expire, no_decision
from noetl.engine.reports.accept import OutOfOrder
from noetl.ports import Clock, Store, Timer
from noetl.runtime.dispatcher import Wakeup
from noetl.runtime.executions.access import Executions
from noetl.runtime.executions.children import ChildExecutions
from noetl.runtime.executions.concurrency import ConcurrencyLimiter
from noetl.runtime.executions.loaded import Decision
from noetl.runtime.executions.quarantine import Quarantine
from noetl.runtime.executions.stalls import StallWatch

Awaits = Callable[[str | None], bool]
"""Decides by the path of a playbook whether a handler awaits its executions."""
OnFinished = Callable[[str], Awaitable[None]]
"""Called with a finished execution until it returns; perhaps more than once."""


class FinishedHandlers:
    """Calls its subscribers with each finished execution that one of them awaits."""

    def __init__(self) -> None:
        self._subscribers: list[tuple[Awaits, OnFinished]] = []

    def subscribe(self, awaits: Awaits, on_finished: OnFinished) -> None:
        self._subscribers.append((awaits, on_finished))

    def is_awaited(self, path: str | None) -> bool:
        """Return whether the end of executions of this path needs a timer."""
        return any(awaits(path) for awaits, _ in self._subscribers)

    async def notify(self, execution_id: str) -> None:
        for _, on_finished in self._subscribers:
            await on_finished(execution_id)


class Sweep:
    """Looks for due leases and timers in the store; also those of lost processes."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        executions: Executions,
        quarantine: Quarantine,
        children: ChildExecutions,
        limiter: ConcurrencyLimiter,
        finished: FinishedHandlers,
        wakeup: Wakeup,
        stalls: StallWatch,
        *,
        is_server: bool,
    ) -> None:
        self._store = store
        self._clock = clock
        self._executions = executions
        self._quarantine = quarantine
        self._children = children
        self._limiter = limiter
        self._finished = finished
        self._wakeup = wakeup
        self._stalls = stalls
        self._is_server = is_server
        self._ended_at = clock.now()
        self.late = 0.0

    def age(self) -> float:
        """Return the seconds since the last sweep; ``late`` is by how many seconds its
        oldest timer was overdue."""
        return max(0.0, self._clock.now() - self._ended_at)

    async def __call__(self) -> None:
        """Serve all that is due, evict idle executions, and wake the workers."""
        now = self._clock.now()
        timers = await self._store.sweep(now=now)
        self.late = now - min((t.due_at for t in timers if t.due_at), default=now)
        for timer in timers:
            async with self._quarantine.apart(timer.execution_id):
                await self._serve(timer)
        if self._is_server:
            await self._stalls.look()
            self._executions.cache.evict_idle()
        self._ended_at = self._clock.now()
        self._wakeup.notify()

    async def _serve(self, timer: Timer) -> None:
        execution_id, name = timer.execution_id, timer.timer_id
        if timer.kind == "finished":
            await self._finished.notify(execution_id)
            await self._store.disarm(timer)
            return
        if self._is_server:  # the timer is disarmed: an outdated state will not do
            await self._executions.refresh(execution_id)
            with suppress(OutOfOrder):
                await self._executions.load(execution_id)  # it may be evicted again
        if execution_id not in self._executions.cache:
            return
        if timer.kind == "place":
            await self._limiter.admit_queued(execution_id)
            return
        decision: Decision = partial(expire, timer_id=name)
        if timer.kind == "family":
            await self._children.check(execution_id, name)
            decision = no_decision
        await self._executions.enqueue(execution_id, decision, disarm=name)
