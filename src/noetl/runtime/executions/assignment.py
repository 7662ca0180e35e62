"""Assigns work to workers, and records their reports."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from noetl.engine.decide import abandon, refuse_code, report
from noetl.engine.reports.accept import Fact
from noetl.engine.runs import is_pending
from noetl.ports import CallLimit, Clock, Lease, Store
from noetl.runtime.dispatcher import (
    Prefetch,
    ReportAnswer,
    TaskValues,
    TokenGiver,
    Wakeup,
    Worker,
    WorkItem,
)
from noetl.runtime.event_loop import Turns
from noetl.runtime.executions.access import Executions
from noetl.runtime.executions.after_commit import RememberLeases
from noetl.runtime.executions.placement import (
    DEFAULT_POOL,
    TIME_SLICE_S,
    Placement,
    make_work_item,
    refusal_of,
)
from noetl.runtime.executions.quarantine import Quarantine
from noetl.runtime.values.ownership import Owners
from noetl.runtime.values.stores import LocalValues, Results
from noetl.runtime.worker_protocol.idle_workers import IdleWorkers

RELEASE_MARGIN_S = 60.0
"""A released lease is dated back by this time and two lease times: it has expired by
the clock of every server."""


@dataclass(kw_only=True, eq=False)
class WorkAssignment:
    """Leases commands of the store to workers: the dispatcher of this process's own
    slots, and what the worker protocol asks for remote workers.

    A server remembers ``leases``. ``tokens`` gives tokens to tools in its own slots.
    """

    store: Store
    clock: Clock
    results: Results
    owners: Owners
    tokens: TokenGiver
    turns: Turns
    wakeup: Wakeup
    idle_workers: IdleWorkers
    executions: Executions
    quarantine: Quarantine
    placement: Placement
    leases: RememberLeases | None = None

    @property
    def ttl(self) -> float:
        return self.placement.ttl

    @property
    def time_slice(self) -> float:
        return TIME_SLICE_S

    @property
    def is_alone(self) -> bool:
        return self.placement.pool is not None

    def register(self, worker: Worker) -> None:
        """Give first steps to this worker, and stop it on ended commands."""
        self.idle_workers.register(worker)

    async def claim(
        self,
        owner: str,
        slots: int,
        pool: str = DEFAULT_POOL,
        *,
        waits: bool = False,
    ) -> list[WorkItem]:
        """Lease ready pipelines of a pool; with ``waits`` those that need no slot."""
        pool, ttl = self.placement.pool or pool, self.placement.ttl
        leases = await self.store.claim(
            owner, pool=pool, slots=slots, now=self.clock.now(), ttl=ttl, waits=waits
        )
        return await self.work_for(leases, leases.positions)

    async def work_for(
        self, leases: Sequence[Lease], positions: Mapping[str, int]
    ) -> list[WorkItem]:
        """Build the work items of these leases, without those of executions that
        cannot be read. ``positions`` are the ends of their logs, where known."""
        items: list[WorkItem] = []
        for execution_id in {lease.execution_id: None for lease in leases}:
            mine = [lease for lease in leases if lease.execution_id == execution_id]
            read = False
            async with self.quarantine.apart(execution_id):
                if not self.executions.cache.is_at(
                    execution_id, positions.get(execution_id)
                ):
                    await self.executions.refresh(execution_id)
                await self._abandon(mine)
                await self._refuse_code(mine)
                read = True
                items += self._items_of(execution_id, mine)
            if not read:  # no worker is to blame
                await self.store.forgive(mine)
        return items

    def _items_of(self, execution_id: str, leases: Sequence[Lease]) -> list[WorkItem]:
        loaded = self.executions.cache.get(execution_id)
        items: list[WorkItem] = []
        for lease in leases:
            if loaded is not None and is_pending(loaded.state.runs, lease.command_id):
                items.append(make_work_item(loaded, lease, self.placement))
                if self.leases is not None:
                    self.leases.note(loaded, lease)
        return items

    async def _abandon(self, leases: Sequence[Lease]) -> None:
        """End pipelines that were claimed again and again without a report."""
        limit = self.placement.max_lost_workers
        often = [each for each in leases if limit is not None and each.epoch > limit]
        if limit is None or not often:
            return
        rows = await self.store.commands([each.command_id for each in often])
        for lease in often:
            row = rows.get(lease.command_id)
            if row is not None and row.unreported > limit:
                claims = row.unreported - 1
                decision = partial(abandon, command_id=lease.command_id, claims=claims)
                await self.executions.enqueue(lease.execution_id, decision, lease)

    async def _refuse_code(self, leases: Sequence[Lease]) -> None:
        """End pipelines whose pool ran code when they were scheduled, and no longer
        does: the operator has changed ``pools.code``."""
        for lease in leases:
            loaded = self.executions.cache.get(lease.execution_id)
            if loaded is None or not is_pending(loaded.state.runs, lease.command_id):
                continue
            error = refusal_of(loaded, lease.command_id, self.placement)
            if error is not None:
                name = lease.command_id
                decision = partial(refuse_code, command_id=name, error=error)
                await self.executions.enqueue(lease.execution_id, decision, lease)

    async def report(
        self,
        lease: Lease,
        facts: Sequence[Fact],
        *,
        wants: str | None = None,
        pool: str = DEFAULT_POOL,
        number: int = 0,
        elsewhere: bool = False,
    ) -> ReportAnswer:
        """Record a worker's facts. Raises ``LeaseLost`` if it is not the owner.

        ``wants`` is an owner that takes a pipeline of its pool which the report makes
        ready; a ``number`` is stored with the lease. A worker ``elsewhere`` is not
        trusted.
        """
        prefetch = Prefetch(wants, self.placement.pool or pool) if wants else None
        if self.placement.pool is not None:
            return await self.submit(lease, facts, prefetch)
        async with self.quarantine.guard(lease.execution_id):
            await self.executions.load(lease.execution_id)
            return await self.submit(
                lease, facts, prefetch, number or 1, elsewhere=elsewhere
            )

    def submit(
        self,
        lease: Lease,
        facts: Sequence[Fact],
        prefetch: Prefetch | None,
        number: int = 0,
        *,
        elsewhere: bool = False,
    ) -> asyncio.Future[ReportAnswer]:
        """Enqueue a report on a loaded execution at once. Raises ``OutOfOrder``."""
        name = lease.command_id
        decision = partial(report, command_id=name, facts=facts, elsewhere=elsewhere)
        return self.executions.enqueue(
            lease.execution_id, decision, lease, prefetch, number=number
        )

    async def permit(self, lease: Lease, limits: Sequence[CallLimit]) -> float:
        """Ask for one call under these limits; return 0, or the seconds to wait."""
        now = self.clock.now()
        at = await self.store.permit(lease, limits, now=now)
        if at > now:  # the report that suspends the pipeline does not count as one
            await self.store.forgive([lease])
        return max(0.0, at - now)

    async def renew(self, leases: Sequence[Lease]) -> Sequence[Lease]:
        """Extend leases; return those that were lost."""
        now, ttl = self.clock.now(), self.placement.ttl
        return await self.store.renew(leases, now=now, ttl=ttl)

    async def release(self, leases: Sequence[Lease]) -> None:
        """Give leases back: they expire with the next sweep."""
        ttl = self.placement.ttl
        await self.store.forgive(leases)
        expired = self.clock.now() - 2 * ttl - RELEASE_MARGIN_S
        await self.store.renew(leases, now=expired, ttl=ttl)

    def is_stopped(self, lease: Lease) -> bool:
        """Return whether the tool of this lease must not be called any more."""
        loaded = self.executions.cache.get(lease.execution_id)
        if loaded is None or loaded.state.cancelling is not None:
            return True
        return not is_pending(loaded.state.runs, lease.command_id)

    async def values_for(self, work: WorkItem) -> TaskValues:
        """Return where a pipeline stores large values, and reads references."""
        blobs = await self.results.of(work.playbook)
        return LocalValues(blobs, self.owners, work.lease.execution_id)
