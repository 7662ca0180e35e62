"""The server's heart: take what came, settle, commit, ring."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Protocol

from noetl.dsl.model import Playbook
from noetl.engine.batch import Batch, Recorder
from noetl.engine.cancellation import cancel
from noetl.engine.decide import Request, accept, expire, pause, reject, report, resume
from noetl.engine.effects import Effects, effects_of
from noetl.engine.events import Event
from noetl.engine.reports import Fact, OutOfOrder
from noetl.engine.runs import is_pending
from noetl.engine.secrets import Secrets
from noetl.engine.state import State
from noetl.engine.waits import moments_in, receive
from noetl.errors import KeychainError, NoetlError, Unloaded
from noetl.ports import Blobs, Catalog, Clock, Grant, Lease, Store
from noetl.runtime.alarm import Alarm
from noetl.runtime.families import Families
from noetl.runtime.keychain import Keyring
from noetl.runtime.live import Answer, Decision, Input, Live, Work, fold, freeze, thaw
from noetl.runtime.loading import Loader
from noetl.runtime.transitions import moments_of, rejection_of, transition_of
from noetl.runtime.works import grant, make_work
from noetl.types import JSON

Watcher = Callable[[Sequence[Event]], None]

TTL = 30.0
"""Seconds that a lease lasts."""


class Worker(Protocol):
    """Who runs pipelines in this process."""

    def revoke(self, commands: Sequence[str]) -> None:
        """These are over: stop what still runs of them."""
        ...

    def stop(self, execution_id: str) -> None:
        """The execution is cancelled: stop its tools."""
        ...


class Orchestrator:
    """Decides and records; runs no tool. One writer per execution at a time."""

    def __init__(
        self,
        store: Store,
        blobs: Blobs,
        catalog: Catalog,
        clock: Clock,
        keys: Keyring,
        *,
        pool: str = "default",
    ) -> None:
        self.store = store
        self.blobs = blobs
        self.clock = clock
        self.keys = keys
        self.pool = pool
        self.kept: set[str] = set()
        self.alarm = Alarm(clock)
        self.loader = Loader(store, blobs)
        self.bell = asyncio.Event()
        self.changed = asyncio.Event()
        self.families = Families(self, catalog)
        self._catalog = catalog
        self._live: dict[str, Live] = {}
        self._loading: dict[str, asyncio.Lock] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._watchers: list[Watcher] = []
        self._workers: list[Worker] = []

    # -- who listens -----------------------------------------------------------

    def watch(self, watcher: Watcher) -> None:
        """Call this with every batch that was committed."""
        self._watchers.append(watcher)

    def employ(self, worker: Worker) -> None:
        """Tell this one what it must stop."""
        self._workers.append(worker)

    # -- executions ------------------------------------------------------------

    def state(self, execution_id: str) -> State:
        live = self._live.get(execution_id)
        if live is None:
            raise OutOfOrder(f"execution {execution_id} is not open here")
        return live.state

    def is_loaded(self, execution_id: str) -> bool:
        return execution_id in self._live

    def running(self) -> list[str]:
        """What may still start something."""
        return [
            name
            for name, live in self._live.items()
            if live.state.status == "running" and not live.state.finished
        ]

    async def finish(self) -> None:
        """Wait until everything that is loaded has ended, and nothing is on its way."""
        while True:
            if self.families.broken is not None:
                raise self.families.broken
            over = all(live.state.finished for live in self._live.values())
            if over and not self.families.busy:
                return
            self.changed.clear()
            await self.changed.wait()

    async def serve(self) -> None:
        """Watch the clock until cancelled."""
        await self.alarm.serve(self.sweep)

    def forget(self, execution_id: str) -> None:
        """Of what is over, nothing need stay; except what somebody asked for."""
        if execution_id not in self.kept:
            self._live.pop(execution_id, None)

    async def start(
        self, playbook: Playbook, request: Request
    ) -> dict[str, JSON] | None:
        """Accept the request; or why it was refused: its keychain (KEY-03)."""
        execution_id, folder = request.execution_id, request.playbook.get("folder")
        try:
            secrets = await self.keys.resolve(execution_id, playbook.keychain, folder)
        except KeychainError as error:
            await self.reject(request, error.error)
            return error.error
        if request.parent is not None:
            caller = request.parent["execution_id"]
            await self.keys.share(caller, execution_id, request.workload)
        live = Live.of(playbook, State(), request.playbook, secrets)
        self._live[execution_id] = live
        await self._put(execution_id, lambda batch: accept(batch, request))
        return None

    async def reject(self, request: Request, error: dict[str, JSON]) -> list[Event]:
        """Put a request that cannot be granted on record (S-42)."""
        recorder = Recorder(State(), self.clock.now())
        reject(recorder, request, error)
        await self._store_blobs(recorder)
        await self.store.commit([rejection_of(recorder, request.playbook)])
        return recorder.events

    async def load(self, execution_id: str) -> State:
        """Take up an execution from its log, and what it has made due."""
        if execution_id not in self._live:
            lock = self._loading.setdefault(execution_id, asyncio.Lock())
            async with lock:  # whoever comes meanwhile waits for the same
                if execution_id not in self._live:
                    await self._load(execution_id)
            self._loading.pop(execution_id, None)
        return self.state(execution_id)

    async def _load(self, execution_id: str) -> None:
        [first] = await self.store.read(execution_id, limit=1)
        about = first.payload["playbook"]
        playbook = await self._catalog.pinned(about)
        state = await fold(self.store, execution_id)
        secrets = Secrets()
        if not state.finished:
            folder = about.get("folder")
            secrets = await self.keys.open(execution_id, playbook.keychain, folder)
        live = Live.of(playbook, state, about, secrets)
        self._live[execution_id] = live
        for moment in moments_in(state):
            self.alarm.set(moment)
        self.families.take_up(execution_id, live)

    # -- inputs ----------------------------------------------------------------

    async def report(
        self, lease: Lease, facts: Sequence[Fact], *, wants: str | None = None
    ) -> Answer:
        """Record a worker's facts. Raises ``LeaseLost`` if it is not the owner.

        ``wants`` is an owner that takes a pipeline which the report makes ready.
        """
        command = lease.command_id
        return await self._put(
            lease.execution_id,
            lambda batch: report(batch, command, facts),
            lease,
            wants,
        )

    async def cancel(
        self, execution_id: str, error: dict[str, JSON] | None = None
    ) -> None:
        await self._put(execution_id, lambda batch: cancel(batch, error))

    async def pause(self, execution_id: str) -> None:
        await self._put(execution_id, pause)

    async def resume(self, execution_id: str) -> None:
        await self._put(execution_id, resume)

    async def signal(self, execution_id: str, name: str, data: JSON) -> None:
        await self._put(execution_id, lambda batch: receive(batch, name, data))

    async def decide(self, execution_id: str, decision: Decision) -> Answer:
        return await self._put(execution_id, decision)

    async def sweep(self) -> None:
        """Expire leases and deadlines; then whoever waited for a time may go on."""
        for timer in await self.store.sweep(now=self.clock.now()):
            if timer.execution_id in self._live:
                name = timer.timer_id
                decision = partial(expire, timer_id=name)
                await self._put(timer.execution_id, decision, disarm=name)
        self.bell.set()

    async def renew(self, leases: Sequence[Lease]) -> Sequence[Lease]:
        """Those that were lost."""
        return await self.store.renew(leases, now=self.clock.now(), ttl=TTL)

    async def claim(self, owner: str, slots: int) -> list[Work]:
        """Lease ready pipelines and say where each of them stands."""
        leases = await self.store.claim(
            owner, pool=self.pool, slots=slots, now=self.clock.now(), ttl=TTL
        )
        for execution_id in {lease.execution_id for lease in leases}:
            with suppress(OutOfOrder):  # a child may end, and be forgotten, meanwhile
                await self.load(execution_id)
            live = self._live.get(execution_id)
            if live is not None and live.busy:  # what is decided may not be stored yet
                await self._put(execution_id, lambda batch: None)
        works = []
        for lease in leases:
            live = self._live.get(lease.execution_id)
            if live is not None and is_pending(live.state, lease.command_id):
                works.append(make_work(live, lease))
        return works

    def is_stopped(self, lease: Lease) -> bool:
        """Whether its tool must not be called any more."""
        live = self._live.get(lease.execution_id)
        if live is None or live.state.cancelling is not None:
            return True
        return not is_pending(live.state, lease.command_id)

    # -- settling --------------------------------------------------------------

    def _put(
        self,
        execution_id: str,
        decide: Decision,
        lease: Lease | None = None,
        wants: str | None = None,
        disarm: str | None = None,
    ) -> asyncio.Future[Answer]:
        """Queue an input. What is queued together is decided and stored together."""
        live = self._live.get(execution_id)
        if live is None:
            raise OutOfOrder(f"execution {execution_id} is not open here")
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        live.inbox.append(Input(decide, future, lease, wants, disarm))
        if not live.busy:
            live.busy = True
            task = asyncio.create_task(self._serve(execution_id, live))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return future

    async def _serve(self, execution_id: str, live: Live) -> None:
        try:
            while live.inbox:
                inputs, live.inbox = live.inbox, []
                await self._settle(execution_id, live, inputs)
        finally:
            live.busy = False

    async def _settle(
        self, execution_id: str, live: Live, inputs: Sequence[Input]
    ) -> None:
        try:
            await self._settle_together(execution_id, live, inputs)
        except Exception as error:
            await self._restore(execution_id, live)
            if len(inputs) == 1:
                inputs[0].refuse(error)
                return
            for each in inputs:  # one of them is to blame; the others are not
                await self._settle(execution_id, live, [each])

    async def _settle_together(
        self, execution_id: str, live: Live, inputs: Sequence[Input]
    ) -> None:
        after = live.state.seq
        batch = await self._decide(execution_id, live, inputs)
        if batch.events or any(each.disarm for each in inputs):
            effects = effects_of(batch.events)
            granted = grant(live, batch, effects, inputs)
            transition = transition_of(
                live,
                batch,
                effects,
                after,
                self.pool,
                inputs,
                Grant(granted, self.clock.now() + TTL) if granted else None,
            )
            await self._store_blobs(batch)
            if live.state.finished and live.state.parent is not None:
                caller = live.state.parent["execution_id"]
                await self.keys.share(execution_id, caller, live.state.result)
            await self.store.commit([transition])
            if live.state.finished:
                await self.keys.drop(execution_id)
            if batch.events:
                self._tell(execution_id, live, batch.events, effects, len(granted))
        for each in inputs:
            if each.answer is not None:
                each.answer.ctx = live.state.ctx
            each.reply()

    async def _decide(
        self, execution_id: str, live: Live, inputs: Sequence[Input]
    ) -> Batch:
        # The state is changed while it is decided: where that is likely to be tried
        # again, because values are stored elsewhere, the way back is kept.
        before = freeze(live.state) if live.state.spilled else b""
        while True:
            now = self.clock.now()
            batch = Batch(
                live.playbook, live.net, live.state, now, live.values, live.secrets
            )
            try:
                for each in inputs:
                    _decide(batch, each)
            except Unloaded as needed:
                await self.loader.load(needed.references, live.values, batch.events)
                if before:
                    live.state = thaw(before)
                else:
                    live.state = await fold(self.store, execution_id)
            else:
                live.values.trim()
                return batch

    def _tell(
        self,
        execution_id: str,
        live: Live,
        events: Sequence[Event],
        effects: Effects,
        granted: int,
    ) -> None:
        """It is stored: now the outside may know."""
        for moment in moments_of(effects):
            self.alarm.set(moment)
        for watcher in self._watchers:
            watcher(events)
        for worker in self._workers:
            worker.revoke(effects.over)
            if live.state.cancelling is not None:
                worker.stop(execution_id)
        self.families.note(execution_id, live, effects)
        if live.state.finished:
            self.changed.set()
        idle = not live.state.runs
        if len(effects.ready) > granted or effects.parked or effects.freed or idle:
            self.bell.set()

    async def _store_blobs(self, recorder: Recorder) -> None:
        for body in recorder.blobs.values():
            await self.blobs.put(body)

    async def _restore(self, execution_id: str, live: Live) -> None:
        """The state ran ahead of the log: fold what is really there."""
        try:
            live.state = await fold(self.store, execution_id)
        except Exception:  # the store is gone: whoever comes next will read it again
            self._live.pop(execution_id, None)


def _decide(batch: Batch, each: Input) -> None:
    """A refusal that has changed nothing concerns nobody else."""
    before = len(batch.events)
    try:
        each.answer = Answer(stop=bool(each.decide(batch)))
    except NoetlError as error:
        if len(batch.events) > before:
            raise
        each.answer = None
        each.refuse(error)
