"""Limits executions of one concurrency key: admitted, queued or rejected."""

from __future__ import annotations

import msgspec

from noetl.engine.decide import admit_queued, no_decision
from noetl.engine.reports.accept import OutOfOrder
from noetl.engine.steps.concurrency import Concurrency, superseded, taken
from noetl.errors import NoPlace
from noetl.ports import Clock, Store
from noetl.runtime.event_loop import DueTimer
from noetl.runtime.executions.access import Executions
from noetl.runtime.executions.after_commit import Commit
from noetl.runtime.executions.transition import ADMIT_TIMER, slot_of
from noetl.types import JSON


class Admission(msgspec.Struct, frozen=True):
    """The answer for an execution whose key is taken: it is queued, unless ``refusal``
    says why it is rejected."""

    refusal: dict[str, JSON] | None = None


class ConcurrencyLimiter:
    """Acts on the store's decision which executions hold a key. The timer of a queued
    execution repeats the attempt to admit it, whatever happens to a server."""

    def __init__(
        self, store: Store, clock: Clock, timer: DueTimer, executions: Executions
    ) -> None:
        self._store = store
        self._clock = clock
        self._timer = timer
        self._executions = executions

    async def admit(self, concurrency: Concurrency) -> Admission:
        """Decide what happens to an execution that found its key taken."""
        if concurrency.on_limit != "reject":
            return Admission()
        line = await self._store.slots_of(concurrency.place)
        held = [each for each in line if not each.queued] or line
        return Admission(taken(concurrency, [each.execution_id for each in held]))

    def after_commit(self, commit: Commit) -> None:
        """Sweep at once if the commit changes who holds a key."""
        if slot_of(commit.loaded.state, commit.events) is not None:
            self._timer.set(self._clock.now())

    async def admit_queued(self, execution_id: str) -> None:
        """Admit a queued execution if the store has room; otherwise it stays queued."""
        loaded = self._executions.cache.get(execution_id)
        concurrency = loaded.state.concurrency if loaded is not None else None
        if loaded is None or concurrency is None:
            return
        is_queued = loaded.state.queued is not None
        if is_queued and concurrency.on_limit == "cancel_previous":
            await self._cancel_previous(execution_id, concurrency)
        try:
            await self._executions.enqueue(
                execution_id, admit_queued, disarm=ADMIT_TIMER
            )
        except NoPlace:  # the store sets the timer again when there is room
            await self._executions.enqueue(
                execution_id, no_decision, disarm=ADMIT_TIMER
            )

    async def _cancel_previous(self, mine: str, concurrency: Concurrency) -> None:
        """Cancel the executions queued before this one, and as many holders as it
        needs, the oldest first. It is admitted when they have ended."""
        line = await self._store.slots_of(concurrency.place)
        held = [each.execution_id for each in line if not each.queued]
        if mine in held:  # another server has admitted it
            return
        waiting = [each.execution_id for each in line if each.queued]
        before = waiting[: waiting.index(mine)] if mine in waiting else []
        surplus = max(0, len(held) + 1 - concurrency.limit)
        executions = self._executions
        for execution_id in [*before, *held[:surplus]]:
            await executions.refresh(execution_id)
            try:
                await executions.load(execution_id)  # it may have been evicted again
                await executions.cancel(execution_id, superseded(concurrency, mine))
            except OutOfOrder:  # it has ended
                continue
            loaded = executions.cache.get(execution_id)
            if loaded is not None and loaded.state.finished:
                executions.cache.evict(execution_id)
