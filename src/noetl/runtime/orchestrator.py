"""The server's heart: take what came, settle, commit, ring."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial

from noetl.dsl.model import Playbook
from noetl.engine.batch import Recorder
from noetl.engine.cancellation import cancel
from noetl.engine.decide import (
    Request,
    abandon,
    expire,
    nothing,
    objection,
    reject,
    report,
)
from noetl.engine.effects import Effects
from noetl.engine.events import Event
from noetl.engine.reports import Fact, OutOfOrder
from noetl.engine.runs import commands_of, is_pending
from noetl.engine.state import ExecutionStatus, State
from noetl.engine.waits import moments_in
from noetl.errors import KeychainError, RequestKnown, StoreError
from noetl.ports import Catalog, Clock, Lease, Store, Timer
from noetl.runtime.alarm import Alarm
from noetl.runtime.bell import Bell, Doorbell
from noetl.runtime.dispatch import Shelf, TokenGiver
from noetl.runtime.families import Families
from noetl.runtime.idleness import idle_ones
from noetl.runtime.keychain import Keyring
from noetl.runtime.known_leases import KnownLeases
from noetl.runtime.live import Answer, Decision, Input, Live, Wanting, Work
from noetl.runtime.ownership import Owners
from noetl.runtime.places import Places
from noetl.runtime.planning import DEFAULT_POOL, TTL, TURN, Planner
from noetl.runtime.quarantine import Quarantine
from noetl.runtime.residents import Residents, read_live
from noetl.runtime.results import Results, store_blobs
from noetl.runtime.rights import AllRights, Rights
from noetl.runtime.settlement import Settlement
from noetl.runtime.shelves import OwnShelf
from noetl.runtime.staff import Staff
from noetl.runtime.task_secrets import TaskSecrets
from noetl.runtime.transitions import moments_of, rejection_of
from noetl.runtime.turns import Turns, Watchdog
from noetl.runtime.works import make_work
from noetl.types import JSON

Trouble = Callable[[str, Exception], None]
Watcher = Callable[[Sequence[Event]], None]
Hearing = Callable[[str], Awaitable[None]]
"""Told of an execution that is over, until it returns; perhaps more than once."""


class Orchestrator(Residents):
    """Decides and records; runs no tool.

    ``pool`` is that of all its commands, where one process works for itself alone.
    Without it this is a server: it takes up whatever is in the store, and each step
    says which pool runs it.
    """

    def __init__(
        self,
        store: Store,
        results: Results,
        catalog: Catalog,
        clock: Clock,
        keys: Keyring,
        *,
        pool: str | None = None,
        ttl: float = TTL,
        doorbell: Doorbell | None = None,
        rights: Rights | None = None,
    ) -> None:
        super().__init__()
        self.store = store
        self.results = results
        self.blobs = results.own
        self.clock = clock
        self.keys = keys
        self.rights = rights or AllRights()
        self.task_secrets = TaskSecrets(keys, self.live)
        self.known = KnownLeases()
        self.trouble: Trouble = lambda execution_id, error: None
        self.hear: Hearing = _hear_nothing
        self.alarm = Alarm(clock)
        self.planner = Planner(pool, shared=pool is None, ttl=ttl)
        self.turn = TURN if pool is None else None
        self.owners = Owners(store, results.own)
        self.turns = Turns()
        self._watchdog = Watchdog()
        self._settlement = Settlement(
            store, results, self.owners, clock, keys, self.planner, self, self.turns
        )
        self.bell = Bell()
        self.doorbell = doorbell
        self.changed = asyncio.Event()
        self.families = Families(self, catalog)
        self.quarantine = Quarantine(self)
        self.places = Places(self)
        self._catalog = catalog
        self._loading: dict[str, asyncio.Lock] = {}
        self._watchers: list[Watcher] = []
        self.staff = Staff(pool or DEFAULT_POOL)
        self.employ = self.staff.employ

    # -- who listens -----------------------------------------------------------

    def watch(self, watcher: Watcher) -> None:
        """Call this with every batch that was committed."""
        self._watchers.append(watcher)

    @property
    def ttl(self) -> float:
        return self.planner.ttl

    @property
    def is_server(self) -> bool:
        return self.planner.pool is None

    @property
    def tokens(self) -> TokenGiver:
        """Whom its own slots ask for tokens; at home every task may ask."""
        return self.task_secrets if self.is_server else self.keys

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

    async def close(self) -> None:
        """Leave everything as it is in the log."""
        await self.families.close()
        await self._settlement.close()

    async def start(
        self, playbook: Playbook, request: Request
    ) -> dict[str, JSON] | None:
        """Accept the request; or why it was refused: a forged reference (S-82), no
        secret (KEY-03), no place."""
        execution_id, about = request.execution_id, request.playbook
        forged = objection(request)
        if forged is not None:
            await self.reject(request, forged)
            return forged
        try:
            secrets = await self.keys.resolve(execution_id, playbook.keychain, about)
        except KeychainError as error:
            await self.reject(request, error.error)
            return error.error
        if request.parent is not None:
            caller = request.parent["execution_id"]
            await self.keys.share(caller, execution_id, request.workload)
        live = Live.of(playbook, State(), request.playbook, secrets)
        live.request_key = request.request_key
        self._live[execution_id] = live
        try:
            refusal = await self.places.begin(request)
        except StoreError as error:
            self.drop(execution_id)  # whether it is in the log, the log will say
            if isinstance(error, RequestKnown):  # there is another one, never this
                await self.keys.drop(execution_id)
            raise
        if refusal is not None:
            self.drop(execution_id)
            await self.keys.drop(execution_id)
            await self.reject(request, refusal)
        return refusal

    async def begin(self, execution_id: str, decision: Decision) -> None:
        """Decide for the first time. A worker that has nothing to do gets the first
        step at once."""
        pool = self.planner.first_pool(self.resident(execution_id))
        worker, wants = self.staff.find_free(pool) or (None, None)
        work = None
        try:
            work = (await self._put(execution_id, decision, wants=wants)).work
        finally:
            if worker is not None:
                worker.take(work)

    async def reject(self, request: Request, error: dict[str, JSON]) -> list[Event]:
        """Put a request that cannot be granted on record (S-42)."""
        recorder = Recorder(State(), self.clock.now())
        reject(recorder, request, error)
        await store_blobs(self.blobs, recorder)
        about, key = request.playbook, request.request_key
        await self.store.commit([rejection_of(recorder, about, key, self.planner)])
        return recorder.events

    async def load(self, execution_id: str) -> State:
        """Take up an execution from its log, and what it has made due."""
        if execution_id not in self._live:
            lock = self._loading.setdefault(execution_id, asyncio.Lock())
            try:
                async with lock, self.quarantine.guard(execution_id):
                    if execution_id not in self._live:  # others wait for the same
                        await self._load(execution_id)
            finally:
                self._loading.pop(execution_id, None)
        return self.state(execution_id)

    async def take_up(self, execution_id: str) -> None:
        """Load what was put into the store otherwise, and call those who may do it."""
        state = await self.load(execution_id)
        if state.finished:
            self.forget(execution_id)
            return
        self.bell.ring()
        self._ring(self._live[execution_id], commands_of(state))

    async def _load(self, execution_id: str) -> None:
        live = await read_live(self.store, self._catalog, self.keys, execution_id)
        live.used = self.clock.now()
        self._live[execution_id] = live
        for moment in moments_in(live.state):
            self.alarm.set(moment)
        if not self.is_server:  # its last settlement may have been cut
            self.alarm.set(live.used)
        self.families.take_up(execution_id, live)

    # -- inputs ----------------------------------------------------------------

    async def report(
        self,
        lease: Lease,
        facts: Sequence[Fact],
        *,
        wants: str | None = None,
        pool: str = DEFAULT_POOL,
        number: int = 0,
    ) -> Answer:
        """Record a worker's facts. Raises ``LeaseLost`` if it is not the owner.

        ``wants`` is an owner that takes a pipeline of its pool which the report makes
        ready; a ``number`` is remembered with the lease.
        """
        wanting = Wanting(wants, self.planner.pool or pool) if wants else None
        if not self.is_server:
            return await self.submit(lease, facts, wanting)
        async with self.quarantine.guard(lease.execution_id):
            await self.load(lease.execution_id)
            return await self.submit(lease, facts, wanting, number or 1)

    def submit(
        self,
        lease: Lease,
        facts: Sequence[Fact],
        wants: Wanting | None,
        number: int = 0,
    ) -> asyncio.Future[Answer]:
        """The same of what is loaded, put in line at once."""
        decision = partial(report, command_id=lease.command_id, facts=facts)
        return self._put(lease.execution_id, decision, lease, wants, number=number)

    async def cancel(
        self, execution_id: str, error: dict[str, JSON] | None = None
    ) -> None:
        await self._put(execution_id, partial(cancel, error=error))

    async def decide(
        self, execution_id: str, decision: Decision, disarm: str | None = None
    ) -> Answer:
        return await self._put(execution_id, decision, disarm=disarm)

    async def sweep(self) -> None:
        """Expire leases and deadlines; then whoever waited for a time may go on."""
        for timer in await self.store.sweep(now=self.clock.now()):
            async with self.quarantine.apart(timer.execution_id):
                await self._expire(timer)
        if self.is_server:
            now, shared = self.clock.now(), self.store.shared
            for execution_id in idle_ones(self._live, now, shared=shared):
                self.forget(execution_id)
        self.bell.ring()

    async def _expire(self, timer: Timer) -> None:
        execution_id, name = timer.execution_id, timer.timer_id
        if timer.kind == "finished":
            await self.hear(execution_id)
            await self.store.disarm(timer)
            return
        if self.is_server:  # it is disarmed for good: no old facts will do
            await self.refresh(execution_id)
            with suppress(OutOfOrder):
                await self.load(execution_id)  # what only waits rests again already
        if execution_id not in self._live:
            return
        if timer.kind == "place":
            await self.places.look(execution_id)
            return
        decision: Decision = partial(expire, timer_id=name)
        if timer.kind == "family":
            await self.families.look(execution_id, name)
            decision = nothing
        await self._put(execution_id, decision, disarm=name)

    async def take_back(self, execution_id: str) -> ExecutionStatus:
        """Go on with what was set aside. Raises ``SetAside`` if it still cannot be."""
        self.drop(execution_id)
        status = await self.quarantine.end(await self.load(execution_id))
        self.bell.ring()
        return status

    async def renew(self, leases: Sequence[Lease]) -> Sequence[Lease]:
        """Those that were lost."""
        return await self.store.renew(leases, now=self.clock.now(), ttl=self.ttl)

    async def release(self, leases: Sequence[Lease]) -> None:
        """Nobody works on these: they expire with the next sweep."""
        await self.store.forgive(leases)
        long_ago = self.clock.now() - 2 * self.ttl - 60.0
        await self.store.renew(leases, now=long_ago, ttl=self.ttl)

    async def claim(
        self, owner: str, slots: int, pool: str = DEFAULT_POOL
    ) -> list[Work]:
        """Lease ready pipelines and say where each of them stands."""
        pool = self.planner.pool or pool
        leases = await self.store.claim(
            owner, pool=pool, slots=slots, now=self.clock.now(), ttl=self.ttl
        )
        return await self.works_of(leases, leases.positions)

    async def works_of(
        self, leases: Sequence[Lease], positions: Mapping[str, int]
    ) -> list[Work]:
        """What is to be done under these; less, if some of it cannot be read."""
        works: list[Work] = []
        for execution_id in {lease.execution_id: None for lease in leases}:
            mine = [lease for lease in leases if lease.execution_id == execution_id]
            read = False
            async with self.quarantine.apart(execution_id):
                if not self.is_at(execution_id, positions.get(execution_id)):
                    await self.refresh(execution_id)
                await self._abandon(mine)
                read = True
                live = self._live.get(execution_id)
                for lease in mine:
                    if live is not None and is_pending(live.state, lease.command_id):
                        works.append(make_work(live, lease, self.planner))
                        self._note(live, lease)
            if not read:  # no worker is to blame
                await self.store.forgive(mine)
        return works

    async def _abandon(self, leases: Sequence[Lease]) -> None:
        """End pipelines whose owners reported nothing, claim after claim."""
        most = self.planner.most_lost
        often = [each for each in leases if most is not None and each.epoch > most]
        if most is None or not often:
            return
        rows = await self.store.commands([each.command_id for each in often])
        for lease in often:
            row = rows.get(lease.command_id)
            if row is not None and row.unreported > most:
                claims = row.unreported - 1
                decision = partial(abandon, command_id=lease.command_id, claims=claims)
                await self._put(lease.execution_id, decision, lease)

    def _note(self, live: Live, lease: Lease) -> None:
        """Remember who got it: reports under it need no look into the store first."""
        if self.is_server:
            self.known.note(lease, self.planner.pool_of(live, lease.command_id))

    async def refresh(self, execution_id: str) -> None:
        """Load it, or catch up with what other processes wrote."""
        with suppress(OutOfOrder):  # a child may end, and be forgotten, meanwhile
            await self.load(execution_id)
        live = self._live.get(execution_id)
        if live is not None and (live.busy or self.store.shared):
            # What is decided may not be stored yet, nor what is stored be known.
            live.stale = self.store.shared
            await self._put(execution_id, nothing)

    async def shelf_of(self, work: Work) -> Shelf:
        blobs = await self.results.of(work.playbook)
        return OwnShelf(blobs, self.owners, work.lease.execution_id)

    def is_stopped(self, lease: Lease) -> bool:
        """Whether its tool must not be called any more."""
        live = self._live.get(lease.execution_id)
        if live is None or live.state.cancelling is not None:
            return True
        return not is_pending(live.state, lease.command_id)

    def _put(
        self,
        execution_id: str,
        decide: Decision,
        lease: Lease | None = None,
        wants: Wanting | None = None,
        disarm: str | None = None,
        number: int = 0,
    ) -> asyncio.Future[Answer]:
        live = self.resident(execution_id)
        future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        each = Input(decide, future, lease, wants, disarm, number)
        return self._settlement.put(execution_id, live, each)

    def linger(self, live: Live, seconds: float) -> None:
        """Raises ``TooSlow``, for which the execution is set aside."""
        if self.is_server:
            path = live.about.get("path")
            self._watchdog.note(live.state.execution_id, path, seconds)

    def rest(self, execution_id: str, live: Live) -> None:
        """What only waits need not stay in memory: whoever wakes it reads its log."""
        if self.planner.may_rest(live, self.clock.now()):
            self.drop(execution_id)

    def tell(
        self,
        live: Live,
        events: Sequence[Event],
        effects: Effects,
        granted: Sequence[Lease],
    ) -> None:
        """It is stored: now the outside may know."""
        self.known.drop(effects.over)
        for lease in granted:
            self._note(live, lease)
        execution_id = live.state.execution_id
        for moment in moments_of(effects):
            self.alarm.set(moment)
        for watcher in self._watchers:
            watcher(events)
        self.staff.revoke(effects.over)
        if live.state.cancelling is not None:
            self.staff.stop(execution_id)
        self.families.note(execution_id, live, effects)
        self.places.note(live.state, events)
        if live.state.finished:
            self.changed.set()
            if self.is_server:
                self.forget(execution_id)
        idle = not live.state.runs and not self.is_server  # nobody else looks for it
        if len(effects.ready) > len(granted) or effects.parked or effects.freed or idle:
            self.bell.ring()
        woken = [name for name, due in effects.parked.items() if due == 0.0]
        if len(effects.ready) + len(woken) > len(granted):
            self._ring(live, {*effects.ready, *woken} - {*effects.over})

    def _ring(self, live: Live, commands: Iterable[str]) -> None:
        """Wake those who wait for work at other servers."""
        if self.doorbell is not None:
            self.doorbell.ring({self.planner.pool_of(live, name) for name in commands})


async def _hear_nothing(execution_id: str) -> None:
    """Nobody wants to know."""
