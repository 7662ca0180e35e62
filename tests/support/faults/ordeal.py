"""Runs a cluster under load while a scenario harms it, and judges what is left of it.

Two kinds of work are under way at any time: an execution with a parallel loop whose
effects a peer counts, and small executions of clients that write down what they are
told. In the end everything must have ended by itself, the invariants must hold, and the
histories of the clients must agree with the logs.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import ClassVar

from lease_history import record_leases

from faults.campaign import LOOP, STUCK
from faults.checker import Checker
from faults.clients import Clients
from faults.cluster import Cluster
from faults.evidence import add_operations, compare, facts_of, verify_all
from faults.ledger import Ledger
from faults.parts import Part
from noetl.adapters.postgres import Postgres
from noetl.adapters.stores.postgres import PostgresStore
from noetl.errors import StoreError

WIDTH = 12
NAMES = "SELECT execution_id FROM noetl.execution"


class Scenario:
    """What is done to a cluster.

    ``required`` are faults or figures without which a part has shown nothing.
    ``overlaps`` says that effects of two owners may meet. ``rest`` are seconds between
    two loops, and ``verifies`` that all of the store is verified after each part. A
    part lasts until ``at_least`` so many faults have happened.
    """

    name: ClassVar[str]
    required: ClassVar[frozenset[str]] = frozenset()
    overlaps: ClassVar[bool] = False
    loop: ClassVar[str] = LOOP
    rest: ClassVar[float] = 0.0
    verifies: ClassVar[bool] = True
    at_least: ClassVar[int] = 1
    supervise: Callable[[], None]
    """Starts what has ended, for harms that take a while; set by the ordeal."""

    def open(self, folder: Path) -> Cluster:
        return Cluster(folder, 2, 3, nats=True)

    async def strike(self, cluster: Cluster, dice: random.Random) -> str:
        """Do one harm and undo it; return its name."""
        raise NotImplementedError

    def limits(self) -> list[str]:
        """Return what this machine cannot do, after ``open``."""
        return []

    def allows(self, ended: str) -> bool:
        """Return whether this end of a process is part of the harm."""
        return False

    def heal(self, cluster: Cluster) -> None:
        """Undo what is left of the harm, after the last one."""

    def inspect(self, part: Part, clients: Clients) -> Iterable[str]:
        """Return what else is wrong, and add figures to ``part``."""
        return ()


Say = Callable[[str], None]


def run(scenario: Scenario, seed: int, seconds: float, folder: Path, say: Say) -> Part:
    """Run one part on a new cluster."""
    ledger = Ledger()
    try:
        cluster = scenario.open(folder)
        try:
            ordeal = Ordeal(scenario, cluster, ledger, seed, say)
            return asyncio.run(ordeal.run(seconds))
        finally:
            cluster.close()
    finally:
        ledger.close()


class Ordeal:
    def __init__(
        self,
        scenario: Scenario,
        cluster: Cluster,
        ledger: Ledger,
        seed: int,
        say: Say,
    ) -> None:
        self._scenario = scenario
        self._cluster = cluster
        self._ledger = ledger
        self._say = say
        self._dice = random.Random(seed)
        self._clients = Clients(cluster.urls, cluster.token, seed)
        self._part = Part(seed=seed)
        self._runs: dict[str, int] = {}
        self._known: set[str] = set()
        self._over = False
        scenario.supervise = self._supervise

    async def run(self, seconds: float) -> Part:
        part, began = self._part, time.monotonic()
        for limit in self._scenario.limits():
            self._say(limit)
        database = Postgres(self._cluster.database)
        store = await PostgresStore.open(database)
        await database.fetch(
            "CREATE TABLE IF NOT EXISTS public.kept (run text, i integer)"
        )
        await record_leases(database)
        self._known = {name for (name,) in await database.fetch(NAMES)}
        self._clients.start()
        busy = asyncio.create_task(self._keep_busy(store))
        try:
            while not busy.done() and (
                time.monotonic() < began + seconds
                or sum(part.faults.values()) < self._scenario.at_least
            ):
                name = await self._scenario.strike(self._cluster, self._dice)
                part.faults[name] = part.faults.get(name, 0) + 1
                self._say(name)
                self._supervise()
        finally:
            self._scenario.heal(self._cluster)
            self._over = True
        settling = asyncio.to_thread(self._clients.settle)
        await asyncio.gather(busy, settling, self._supervise_until(busy))
        part.seconds = time.monotonic() - began
        part.wrong += self._clients.strange
        await self._judge(database, store)
        await database.close()
        return part

    def _supervise(self) -> None:
        known = len(self._cluster.exits)
        self._cluster.supervise()
        for last in self._cluster.exits[known:]:
            if self._scenario.allows(last):
                continue
            self._part.wrong.append(f"ended by itself: {last[:400]}")

    async def _supervise_until(self, busy: asyncio.Task[None]) -> None:
        while not busy.done():
            self._supervise()
            await asyncio.sleep(0.1)

    async def _keep_busy(self, store: PostgresStore) -> None:
        """Have one loop under way, until the faults are over and it has ended."""
        while not self._over:
            await asyncio.sleep(self._scenario.rest)
            name = await asyncio.to_thread(self._begin)
            if name is None:
                continue
            over_at = None
            while not await _has_ended(store, name):
                if self._over and over_at is None:
                    over_at = time.monotonic()
                if over_at is not None and time.monotonic() > over_at + 2 * STUCK:
                    self._part.wrong.append(f"execution {name} is stuck")
                    return
                await asyncio.sleep(0.1)

    def _begin(self) -> str | None:
        """Ask the servers; the key makes one execution of it."""
        size = 120
        body = {
            "playbook": self._scenario.loop.replace("WIDTH", str(WIDTH)),
            "workload": {
                "count": size,
                "dsn": self._cluster.database,
                "ledger": self._ledger.url,
            },
            "idempotency_key": f"loop-{self._part.seed}-{len(self._runs)}",
        }
        try:
            status, answer = self._clients.call(0, "POST", "/api/executions", body)
        except Exception:  # no server answers; the caller asks again
            status, answer = 0, {}
        if status != 201:
            time.sleep(0.2)
            return None
        name: str = answer["execution_id"]
        self._runs[name] = size
        return name

    async def _judge(self, database: Postgres, store: PostgresStore) -> None:
        part, history = self._part, self._clients.history
        names = {name for (name,) in await database.fetch(NAMES)} - self._known
        logs = {name: facts_of(await store.read(name)) for name in names}
        found = await Checker(database, store, self._ledger).check(
            self._runs,
            others=self._known | (names - self._runs.keys()),
            overlaps=self._scenario.overlaps,
        )
        part.wrong += found.wrong
        part.wrong += compare(history, logs)
        if self._scenario.verifies:
            environ = self._cluster.environ_of("server0")
            part.wrong += await asyncio.to_thread(verify_all, environ)
        add_operations(part, logs, history)
        part.figures |= {
            "further claims": found.steals,
            "in doubt": found.in_doubt,
            "effects twice": found.duplicates,
        }
        part.wrong += self._scenario.inspect(part, self._clients)
        if not part.faults:
            part.wrong.append("no fault happened")
        for name in self._scenario.required - part.faults.keys() - part.figures.keys():
            part.wrong.append(f"this did not happen: {name}")


async def _has_ended(store: PostgresStore, execution_id: str) -> bool:
    try:
        return (await store.summary(execution_id)).finished_at is not None
    except StoreError as error:
        if error.kind not in ("store.unreachable", "store.full"):
            raise
        return False
