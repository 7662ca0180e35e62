"""The database of a simulation: the store in memory, behind connections that fail.

The store is the adapter of `noetl.adapters.stores.memory`. A connection delays calls,
loses them or their answers, and tells the database's observers what was done.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Protocol

from noetl.adapters.stores.memory.store import MemoryStore
from noetl.errors import StoreError
from noetl.ports import CallLimit, Claimed, Lease, Summary, Timer, Transition

from .loop import Process, SimLoop
from .plan import Rates

FLAKY = 0.25
"""The share of calls that fail while the store is flaky."""


class Observer(Protocol):
    """Looks at what the database does; every call is atomic."""

    def committed(self, transitions: Sequence[Transition], by: str) -> None: ...
    def claimed(
        self, owner: str, leases: Sequence[Lease], expires_at: float, *, waits: bool
    ) -> None: ...
    def renewed(self, leases: Sequence[Lease], expires_at: float) -> None: ...
    def before_sweep(self, now: float) -> None: ...
    def swept(self) -> None: ...
    def permitted(self, limits: Sequence[CallLimit], now: float) -> None: ...
    def set_aside(self, execution_id: str) -> None: ...


class Database:
    """One store for all servers. ``outage`` is the kind of error of every call until
    the time ``outage_until``; until ``flaky_until`` a quarter of the calls fail;
    executions in ``damaged`` cannot be read."""

    def __init__(self, loop: SimLoop, seed: str, rates: Rates) -> None:
        self.loop = loop
        self.memory = MemoryStore()
        self.random = random.Random(f"{seed}:store")
        self.rates = rates
        self.outage = ""
        self.outage_until = 0.0
        self.flaky_until = 0.0
        self.damaged: set[str] = set()
        self.unrung: set[str] = set()
        """Servers whose last wake-up was lost."""
        self.observers: list[Observer] = []
        self.happened: dict[str, int] = {}

    def count(self, what: str) -> None:
        self.happened[what] = self.happened.get(what, 0) + 1

    async def apply(self, transitions: Sequence[Transition], by: str) -> None:
        await self.memory.commit(transitions)
        for each in transitions:
            self.loop.note(self.memory._executions[each.execution_id].last_hash)
        for observer in self.observers:
            observer.committed(transitions, by)

    def refusal(self, *, writes: bool) -> StoreError | None:
        if self.loop.time() >= self.outage_until:
            return None
        if self.outage == "store.full" and not writes:
            return None
        return StoreError(f"simulated: {self.outage}", self.outage)


LOGS = ("read", "snapshot")
"""Calls that read the log of an execution; those of its other rows work."""


def _passed_on(name: str) -> Callable[..., Awaitable[Any]]:
    async def call(self: Connection, *given: Any, **named: Any) -> Any:
        await self.travel(writes=False)
        if name in LOGS:
            self.check_damage(given[0])
        found = await getattr(self.database.memory, name)(*given, **named)
        await self.answer()
        return found

    return call


class Connection:
    """The store as one server sees it. Others may write to it at the same time."""

    shared = True

    def __init__(self, database: Database, process: Process) -> None:
        self.database = database
        self._process = process
        self._random = database.random
        self._rates = database.rates

    async def travel(self, *, writes: bool) -> None:
        """Delay a call, or lose it before the database has it."""
        draw = self._random.random
        await asyncio.sleep(0.0002 + draw() * draw() * 0.004)
        refused = self.database.refusal(writes=writes)
        if refused is not None:
            self.database.count("store outage")
            raise refused
        flaky = self.database.loop.time() < self.database.flaky_until
        if draw() < (FLAKY if flaky else self._rates.store_error):
            self.database.count("store error")
            kind = ("store.unreachable", "store.busy", "store.io")[int(draw() * 3)]
            raise StoreError("simulated: before the call", kind)

    async def answer(self) -> None:
        await asyncio.sleep(0)

    def check_damage(self, execution_id: str) -> None:
        if execution_id in self.database.damaged:
            self.database.count("damaged read")
            raise StoreError("simulated: the log cannot be read", "store.corrupt")

    # -- calls that change something -----------------------------------------------

    async def commit(self, transitions: Sequence[Transition]) -> None:
        await self.travel(writes=True)
        database, draw = self.database, self._random.random
        fate = draw() if self._fault_rate() > draw() else 1.0
        if fate < 0.3:
            database.count("commit lost")
            raise StoreError("simulated: before the commit", "store.unreachable")
        if fate < 0.5:  # the answer is lost now, and the commit happens later
            database.count("commit unknown")
            database.loop.world.spawn(self._apply_late(transitions))
            raise StoreError("simulated: outcome unknown", "store.unreachable")
        await database.apply(transitions, self._process.name)
        if fate < 0.8:
            database.count("commit unknown")
            await asyncio.sleep(draw() * 0.2)
            raise StoreError("simulated: outcome unknown", "store.unreachable")
        if fate < 1.0:
            database.count("crash after commit")
            self._process.kill()
        await self.answer()

    def _fault_rate(self) -> float:
        flaky = self.database.loop.time() < self.database.flaky_until
        return FLAKY if flaky else self._rates.commit_fault

    async def _apply_late(self, transitions: Sequence[Transition]) -> None:
        await asyncio.sleep(self._random.random() * 0.5)
        try:
            await self.database.apply(transitions, self._process.name)
        except StoreError:
            self.database.count("late commit refused")

    async def claim(
        self,
        owner: str,
        *,
        pool: str,
        slots: int,
        now: float,
        ttl: float,
        waits: bool = False,
    ) -> Claimed:
        await self.travel(writes=True)
        database = self.database
        memory = database.memory
        found = await memory.claim(
            owner, pool=pool, slots=slots, now=now, ttl=ttl, waits=waits
        )
        found.positions = {
            lease.execution_id: await memory.length(lease.execution_id)
            for lease in found
        }
        for lease in found:
            database.loop.note(b"c%d " % lease.epoch)
        for observer in database.observers:
            observer.claimed(owner, found, now + ttl, waits=waits)
        address = self._process.name.partition(".")[0]
        if found and address in database.unrung:
            database.count("fallback poll")
            database.unrung.discard(address)
        if found and self._random.random() < self._rates.store_error * 3:
            database.count("claim unknown")
            raise StoreError("simulated: outcome unknown", "store.unreachable")
        await self.answer()
        return found

    async def renew(
        self, leases: Sequence[Lease], *, now: float, ttl: float
    ) -> Sequence[Lease]:
        await self.travel(writes=True)
        lost = await self.database.memory.renew(leases, now=now, ttl=ttl)
        kept = [lease for lease in leases if lease not in lost]
        for observer in self.database.observers:
            observer.renewed(kept, now + ttl)
        await self.answer()
        return lost

    async def permit(
        self, lease: Lease, limits: Sequence[CallLimit], *, now: float
    ) -> float:
        await self.travel(writes=True)
        at = await self.database.memory.permit(lease, limits, now=now)
        if not at:
            for observer in self.database.observers:
                observer.permitted(limits, now)
        await self.answer()
        return at

    async def set_status(self, summary: Summary) -> None:
        await self.travel(writes=True)
        await self.database.memory.set_status(summary)
        for observer in self.database.observers:
            observer.set_aside(summary.execution_id)
        await self.answer()

    async def sweep(self, *, now: float) -> Sequence[Timer]:
        await self.travel(writes=True)
        observers = self.database.observers
        for observer in observers:
            observer.before_sweep(now)
        due = await self.database.memory.sweep(now=now)
        for observer in observers:
            observer.swept()
        await self.answer()
        return due

    # -- calls that are passed on --------------------------------------------------

    read = _passed_on("read")
    pages = MemoryStore.pages
    length = _passed_on("length")
    snapshot = _passed_on("snapshot")
    tally = _passed_on("tally")
    keep_tally = _passed_on("keep_tally")
    forgive = _passed_on("forgive")
    commands = _passed_on("commands")
    held = _passed_on("held")
    count_commands = _passed_on("count_commands")
    oldest_ready = _passed_on("oldest_ready")
    count_delayed = _passed_on("count_delayed")
    parked = _passed_on("parked")
    disarm = _passed_on("disarm")
    claim_exports = _passed_on("claim_exports")
    postpone_exports = _passed_on("postpone_exports")
    end_exports = _passed_on("end_exports")
    count_exports = _passed_on("count_exports")
    idle = _passed_on("idle")
    find = _passed_on("find")
    verify = _passed_on("verify")
    summary = _passed_on("summary")
    find_request = _passed_on("find_request")
    resolve = _passed_on("resolve")
    count_family = _passed_on("count_family")
    slots_of = _passed_on("slots_of")
