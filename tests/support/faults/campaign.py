"""A campaign: work is always under way, and so are faults; then the checker looks.

The short form is a test, the long one is ``make faults``.
"""

from __future__ import annotations

import asyncio
import http.client
import random
import re
import time
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec
from lease_history import record_leases
from servers import Api

from faults.checker import Checker, Findings
from faults.clients import Clients
from faults.cluster import NATS, POSTGRES, TTL, Cluster
from faults.evidence import compare, facts_of, verify_all
from faults.ledger import Ledger
from noetl.adapters.postgres import Postgres
from noetl.adapters.stores.postgres import PostgresStore
from noetl.adapters.stores.rules import GRACE
from noetl.errors import StoreError

FROZEN = TTL + GRACE + 2.5
"""Seconds after which somebody else has the leases of a frozen worker."""
STUCK = 30.0
"""Seconds without any progress after the last fault: somebody would have to help."""
_FENCED = re.compile(rb"^noetl_fenced_total ([0-9.e+]+)$", re.MULTILINE)

LOOP = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: storm, path: tests/storm}
workload: {count: 10, dsn: "", ledger: ""}
workflow:
  - step: start
    loop:
      in: "{{ range(workload.count) }}"
      iterator: i
      spec: {mode: parallel, max_in_flight: WIDTH}
    tool:
      - tell:
          kind: http
          method: POST
          url: "{{ workload.ledger }}"
          json: {run: "{{ execution_id }}", i: "{{ iter.i }}"}
      - keep:
          kind: postgres
          dsn: "{{ workload.dsn }}"
          command: "INSERT INTO public.kept (run, i) VALUES ($1, $2)"
          params: ["{{ execution_id }}", "{{ iter.i }}"]
          spec:
            idempotency: key
            policy:
              rules:
                - when: "{{ outcome.error.retryable }}"
                  then: {do: retry, attempts: 100, delay: 300ms}
                - when: "{{ outcome.status == 'error' }}"
                  then: {do: fail}
                - else: {then: {do: continue}}
      - end: {kind: noop, result: "{{ iter.i + 1 }}"}
    next:
      arcs:
        - step: sum
          when: "{{ event.name == 'loop.done' }}"
          args: {all: "{{ event.payload.results }}"}
  - step: sum
    tool: {kind: noop, result: "{{ args.all | sum }}"}
"""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """``size`` iterations an execution, one execution after the other, until all
    ``iterations`` are done and all faults have happened. ``pauses`` are the shortest
    and the longest time between two faults. ``clients`` write down what they are told.
    """

    seed: int
    iterations: int
    size: int
    kills: int
    freezes: int = 0
    wipes: int = 0
    width: int = 16
    servers: int = 2
    workers: int = 3
    nats: bool = True
    pauses: tuple[float, float] = (0.2, 0.9)
    clients: int = 0


class Report(msgspec.Struct, kw_only=True):
    plan: Plan
    kills: dict[str, int]
    fenced: int
    exits: list[str]
    executions: int
    seconds: float
    found: Findings
    operations: int = 0


def run(
    plan: Plan, folder: Path, say: Callable[[str], None] = lambda _: None
) -> Report:
    ledger = Ledger()
    try:
        cluster = Cluster(folder, plan.servers, plan.workers, nats=plan.nats)
        try:
            with asyncio.Runner() as runner:
                campaign = Campaign(plan, cluster, ledger, say)
                return runner.run(campaign.run())
        finally:
            cluster.close()
    finally:
        ledger.close()


class Campaign:
    def __init__(
        self, plan: Plan, cluster: Cluster, ledger: Ledger, say: Callable[[str], None]
    ) -> None:
        self._plan = plan
        self._cluster = cluster
        self._ledger = ledger
        self._say = say
        self._dice = random.Random(plan.seed)
        self._runs: dict[str, int] = {}
        self._open: str | None = None
        self._kills: Counter[str] = Counter()
        self._frozen: dict[str, float] = {}
        self._fenced = 0
        self._length = 0
        self._began = self._moved = time.monotonic()

    async def run(self) -> Report:
        plan, cluster = self._plan, self._cluster
        database = Postgres(cluster.database)
        store = await PostgresStore.open(database)
        await database.fetch("CREATE TABLE public.kept (run text, i integer)")
        await record_leases(database)
        clients = Clients(cluster.urls, cluster.token, plan.seed, count=plan.clients)
        clients.start()
        await self._keep_busy(store)
        for fault in self._faults():
            await asyncio.sleep(self._dice.uniform(*plan.pauses))
            fault()
            self._thaw(time.monotonic())
            cluster.supervise()
            await self._keep_busy(store)
        self._thaw(float("inf"))
        self._moved = time.monotonic()
        while self._open is not None or sum(self._runs.values()) < plan.iterations:
            cluster.supervise()
            await asyncio.sleep(0.1)
            await self._keep_busy(store)
            await self._check_progress(database)
        await asyncio.to_thread(clients.settle)
        self._count_fenced(cluster.servers)
        found = await self._judge(database, store, clients)
        await database.close()
        return Report(
            plan=plan,
            kills=dict(sorted(self._kills.items())),
            fenced=self._fenced,
            exits=cluster.exits,
            executions=len(self._runs),
            seconds=time.monotonic() - self._began,
            found=found,
            operations=len(clients.history),
        )

    async def _judge(
        self, database: Postgres, store: PostgresStore, clients: Clients
    ) -> Findings:
        rows = await database.fetch("SELECT execution_id FROM noetl.execution")
        names = {name for (name,) in rows} - self._runs.keys()
        logs = {name: facts_of(await store.read(name)) for name in names}
        theirs = {n: log for n, log in logs.items() if log[0].key in clients.keys}
        checker = Checker(database, store, self._ledger)
        found = await checker.check(self._runs, others=theirs)
        found.wrong += clients.strange
        found.wrong += compare(clients.history, theirs)
        if clients.history:
            environ = self._cluster.environ_of(self._cluster.servers[0])
            found.wrong += await asyncio.to_thread(verify_all, environ)
        return found

    def _faults(self) -> list[Callable[[], None]]:
        """All of them, shuffled; the parts take turns at being killed."""
        plan, parts = self._plan, self._cluster.parts
        victims = [parts[number % len(parts)] for number in range(plan.kills)]
        faults: list[Callable[[], None]] = [partial(self._kill, v) for v in victims]
        faults += [self._wipe] * plan.wipes
        self._dice.shuffle(faults)
        for number in range(plan.freezes):  # never two at once
            faults.insert(len(faults) * number // plan.freezes, self._freeze)
        return faults

    def _kill(self, name: str) -> None:
        if name in self._frozen:  # it shall come back, and be too late
            kind = name.rstrip("0123456789")
            name = next(
                part
                for part in self._cluster.parts
                if part.startswith(kind) and part not in self._frozen
            )
        self._say(f"kill {name}")
        if name.startswith("server"):
            self._count_fenced([name])
        self._cluster.kill(name)
        if name in (NATS, POSTGRES):
            time.sleep(self._dice.uniform(0.0, 1.0))
        self._cluster.start(name)
        self._kills[name.rstrip("0123456789")] += 1

    def _wipe(self) -> None:
        self._say("wipe nats")
        self._cluster.wipe_nats()
        self._kills["nats, wiped"] += 1

    def _freeze(self) -> None:
        """A worker that has something to lose, or now and then a server."""
        self._thaw(float("inf"))
        name = self._dice.choice([*self._cluster.workers, self._cluster.servers[0]])
        self._say(f"freeze {name}")
        self._cluster.freeze(name)
        self._frozen[name] = time.monotonic() + FROZEN
        self._kills["frozen"] += 1

    def _thaw(self, now: float) -> None:
        for name, due in list(self._frozen.items()):
            if due <= now:
                time.sleep(max(due - time.monotonic(), 0.0))
                self._cluster.thaw(name)
                del self._frozen[name]

    def _count_fenced(self, names: list[str]) -> None:
        """Reports that came too late, as the servers count them while they live."""
        for name in names:
            if name in self._frozen:
                continue
            url = self._cluster.urls[self._cluster.servers.index(name)]
            try:
                text = Api(url, self._cluster.token).get("/metrics").body
            except (OSError, http.client.HTTPException):
                continue
            if isinstance(text, bytes) and (said := _FENCED.search(text)):
                self._fenced += int(float(said[1]))

    async def _keep_busy(self, store: PostgresStore) -> None:
        """One execution is under way at any time."""
        try:
            if self._open is not None:
                summary = await store.summary(self._open)
                if summary.finished_at is None:
                    return
                self._open = None
        except StoreError as error:
            if error.kind != "store.unreachable":
                raise
            return
        plan = self._plan
        if sum(self._runs.values()) < plan.iterations or sum(self._kills.values()) < (
            plan.kills + plan.freezes + plan.wipes
        ):
            self._open = await self._begin(f"storm-{len(self._runs)}")
            self._runs[self._open] = plan.size

    async def _begin(self, key: str) -> str:
        """Ask until somebody answers; the key makes one execution of it."""
        inputs = {
            "count": self._plan.size,
            "dsn": self._cluster.database,
            "ledger": self._ledger.url,
        }
        text = LOOP.replace("WIDTH", str(self._plan.width))
        asked = {"playbook": text, "workload": inputs, "idempotency_key": key}
        deadline = time.monotonic() + STUCK
        while True:
            for name, url in zip(
                self._cluster.servers, self._cluster.urls, strict=True
            ):
                if name in self._frozen:
                    continue
                try:
                    api = Api(url, self._cluster.token)
                    answer = await asyncio.to_thread(api.post, "/api/executions", asked)
                except (OSError, http.client.HTTPException):
                    continue
                if answer.status in (200, 201):
                    return str(answer.body["execution_id"])
                assert answer.status in (429, 503), answer.body
            assert time.monotonic() < deadline, "no server answers"
            self._cluster.supervise()
            self._thaw(time.monotonic())
            await asyncio.sleep(0.1)

    async def _check_progress(self, database: Postgres) -> None:
        """Nothing needs a human: as long as something is open, the log grows."""
        sql = "SELECT sum(last_seq) FROM noetl.execution"
        try:
            [(length,)] = await database.fetch(sql)
        except StoreError:
            length = self._length
        if length != self._length:
            self._length, self._moved = length, time.monotonic()
        assert time.monotonic() < self._moved + STUCK, f"{self._open} is stuck"
