"""The orchestrator: starts executions, loads them, and decides on them.

It decides and records, and runs no tool. An input goes this way: ``Executions`` loads
the execution into the ``ExecutionCache``; the ``ExecutionInbox`` queues a decision,
drains the queue, decides, and commits one batch; ``AfterCommit`` runs the reactions.
Workers get their work from the ``WorkAssignment``, and report to it.
``make_orchestrator`` wires the parts.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from noetl.dsl.model import Playbook
from noetl.engine.decide import Request
from noetl.engine.state import State
from noetl.ports import Blobs, Clock, Store
from noetl.runtime.dispatcher import ReportAnswer, Wakeup
from noetl.runtime.event_loop import DueTimer, Turns
from noetl.runtime.executions.access import Executions, Recovery
from noetl.runtime.executions.after_commit import NotifyWatchers, Watcher
from noetl.runtime.executions.assignment import WorkAssignment
from noetl.runtime.executions.cache import ExecutionCache
from noetl.runtime.executions.children import ChildExecutions
from noetl.runtime.executions.concurrency import ConcurrencyLimiter
from noetl.runtime.executions.inbox import ExecutionInbox
from noetl.runtime.executions.initiator_rights import Rights
from noetl.runtime.executions.loaded import Decision
from noetl.runtime.executions.placement import Placement
from noetl.runtime.executions.quarantine import Quarantine
from noetl.runtime.executions.stalls import StallWatch
from noetl.runtime.executions.start import ExecutionStarter
from noetl.runtime.executions.sweep import FinishedHandlers, Sweep
from noetl.runtime.keychain import Keyring, TaskSecrets
from noetl.runtime.values.ownership import Owners
from noetl.runtime.values.stores import Results
from noetl.runtime.worker_protocol.idle_workers import IdleWorkers
from noetl.runtime.worker_protocol.leases import KnownLeases
from noetl.types import JSON


@dataclass(kw_only=True, eq=False)
class Orchestrator:
    """The parts of a server or of an embedded run, and what hosts ask of them."""

    store: Store
    results: Results
    clock: Clock
    keys: Keyring
    rights: Rights
    owners: Owners
    placement: Placement
    turns: Turns
    known: KnownLeases
    task_secrets: TaskSecrets
    cache: ExecutionCache
    inbox: ExecutionInbox
    quarantine: Quarantine
    executions: Executions
    starter: ExecutionStarter
    recovery: Recovery
    assignment: WorkAssignment
    children: ChildExecutions
    limiter: ConcurrencyLimiter
    finished: FinishedHandlers
    sweep: Sweep
    stalls: StallWatch
    timer: DueTimer
    wakeup: Wakeup
    watchers: NotifyWatchers
    idle_workers: IdleWorkers
    changed: asyncio.Event

    @property
    def blobs(self) -> Blobs:
        return self.results.own

    @property
    def is_server(self) -> bool:
        return self.placement.pool is None

    # -- listeners -------------------------------------------------------------

    def watch(self, watcher: Watcher, *, ends_only: bool = False) -> None:
        """Call ``watcher`` with the events of each commit, or with those of the last
        commit of an execution."""
        self.watchers.add(watcher, ends_only=ends_only)

    # -- life ------------------------------------------------------------------

    async def serve(self) -> None:
        """Sweep at each due time, until cancelled."""
        await self.timer.serve(self.sweep)

    async def finish(self) -> None:
        """Wait until all loaded executions have ended and no child is in work."""
        while True:
            if self.children.error is not None:
                raise self.children.error
            if self.cache.all_finished() and not self.children.busy:
                return
            self.changed.clear()
            await self.changed.wait()

    async def close(self) -> None:
        """Stop all work in memory; the log stays as it is."""
        await self.children.close()
        await self.inbox.close()

    # -- executions ------------------------------------------------------------

    async def start(
        self, playbook: Playbook, request: Request
    ) -> dict[str, JSON] | None:
        """Accept the request, or return why it is rejected."""
        return await self.starter.start(playbook, request)

    async def load(self, execution_id: str) -> State:
        """Return the state of an execution; read it from its log if need be."""
        return await self.executions.load(execution_id)

    async def refresh(self, execution_id: str) -> None:
        """Load an execution, or apply what other processes have committed."""
        await self.executions.refresh(execution_id)

    async def decide(
        self, execution_id: str, decision: Decision, *, mends: bool = False
    ) -> ReportAnswer:
        """Decide on a loaded execution, and perhaps make lost rows of it again. Raises
        ``OutOfOrder``."""
        return await self.executions.enqueue(execution_id, decision, mends=mends)

    async def cancel(
        self, execution_id: str, error: dict[str, JSON] | None = None
    ) -> None:
        """Cancel a loaded execution. Raises ``OutOfOrder``."""
        await self.executions.cancel(execution_id, error)
