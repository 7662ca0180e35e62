"""The server's heart: load, settle, commit, ring."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

import msgspec

from noetl.dsl.model import Playbook
from noetl.engine.batch import Batch
from noetl.engine.decide import Request, accept, cancel, pause, report, resume
from noetl.engine.effects import effects_of
from noetl.engine.events import Event
from noetl.engine.evolve import replay
from noetl.engine.pipeline import Frame
from noetl.engine.progress import Progress
from noetl.engine.reports import Fact
from noetl.engine.runs import find_progress, path_of
from noetl.engine.state import State
from noetl.net.net import Net, build_net
from noetl.ports import Clock, Command, Lease, Store, Summary, Transition
from noetl.runtime.clock import rfc3339
from noetl.types import JSON

Decision = Callable[[Batch], None]
Watcher = Callable[[Sequence[Event]], None]


class Live(msgspec.Struct):
    """An execution in memory: the state is the log folded, checked by its position."""

    playbook: Playbook
    net: Net
    state: State
    about: dict[str, JSON]


class Work(msgspec.Struct, frozen=True):
    """What a claim answers: everything a pipeline needs to go on from where it is."""

    lease: Lease
    playbook: Playbook
    frame: Frame
    progress: Progress


class Orchestrator:
    """Decides and records; runs no tool. One writer per execution at a time."""

    def __init__(self, store: Store, clock: Clock, *, pool: str = "default") -> None:
        self._store = store
        self._pool = pool
        self._clock = clock
        self._live: dict[str, Live] = {}
        self._locks: dict[str, asyncio.Lock] = {}
        self._watchers: list[Watcher] = []
        self.bell = asyncio.Event()

    def watch(self, watcher: Watcher) -> None:
        """Call this with every batch that was committed."""
        self._watchers.append(watcher)

    def state(self, execution_id: str) -> State:
        return self._live[execution_id].state

    async def start(self, playbook: Playbook, request: Request) -> None:
        about = request.playbook
        live = Live(playbook, build_net(playbook), State(), about)
        self._live[request.execution_id] = live
        await self._settle(request.execution_id, lambda batch: accept(batch, request))

    async def load(self, playbook: Playbook, execution_id: str) -> State:
        """Take up an execution from its log."""
        events = await self._store.read(execution_id)
        about = events[0].payload["playbook"]
        live = Live(playbook, build_net(playbook), replay(events), about)
        self._live[execution_id] = live
        return live.state

    async def report(self, lease: Lease, facts: Sequence[Fact]) -> None:
        """Record a worker's facts. Raises ``LeaseLost`` if it is not the owner."""
        command = lease.command_id
        await self._settle(
            lease.execution_id, lambda batch: report(batch, command, facts), lease
        )

    async def cancel(
        self, execution_id: str, error: dict[str, JSON] | None = None
    ) -> None:
        await self._settle(execution_id, lambda batch: cancel(batch, error))

    async def pause(self, execution_id: str) -> None:
        await self._settle(execution_id, pause)

    async def resume(self, execution_id: str) -> None:
        await self._settle(execution_id, resume)

    async def claim(self, owner: str, slots: int, ttl: float) -> list[Work]:
        """Lease ready pipelines and say where each of them stands."""
        now = self._clock.now()
        leases = await self._store.claim(
            owner, pool=self._pool, slots=slots, now=now, ttl=ttl
        )
        return [self._work(lease) for lease in leases]

    def _work(self, lease: Lease) -> Work:
        live = self._live[lease.execution_id]
        state = live.state
        run = state.runs[lease.command_id.split("/")[0]]
        path = path_of(lease.command_id)
        frame = Frame(
            state.execution_id,
            state.started_at,
            run.step,
            run.id,
            tuple(path),
            run.args,
            state.ctx,
            state.workload,
        )
        progress = find_progress(run, path)
        mine = msgspec.convert(msgspec.to_builtins(progress), Progress)
        return Work(lease, live.playbook, frame, mine)

    async def _settle(
        self, execution_id: str, decision: Decision, lease: Lease | None = None
    ) -> None:
        lock = self._locks.setdefault(execution_id, asyncio.Lock())
        async with lock:
            live = self._live[execution_id]
            after = live.state.seq
            batch = Batch(
                live.playbook, live.net, live.state, rfc3339(self._clock.now())
            )
            try:
                decision(batch)
                if batch.events:
                    await self._store.commit(
                        [self._transition(live, batch, after, lease)]
                    )
            except BaseException:
                await self._forget(execution_id, live)
                raise
        if batch.events:
            for watcher in self._watchers:
                watcher(batch.events)
        self.bell.set()

    async def _forget(self, execution_id: str, live: Live) -> None:
        """The state ran ahead of the log: fold what is really there."""
        try:
            events = await self._store.read(execution_id)
        except Exception:  # the store is gone: whoever comes next will read it again
            self._live.pop(execution_id, None)
            return
        live.state = replay(events)

    def _transition(
        self, live: Live, batch: Batch, after: int, lease: Lease | None
    ) -> Transition:
        state, effects = live.state, effects_of(batch.events)
        execution_id = state.execution_id
        return Transition(
            execution_id=execution_id,
            after=after,
            events=batch.events,
            summary=Summary(
                execution_id,
                state.status,
                live.about,
                state.started_at,
                batch.now if state.finished else None,
                state.error,
            ),
            lease=lease,
            commands=[
                Command(name, execution_id, self._pool) for name in effects.ready
            ],
            done=effects.over,
        )
