"""A cluster of an earlier version that is upgraded while work is under way.

Servers first, then workers, one after the other; then everything is checked.
"""

from __future__ import annotations

import asyncio
import http.client
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec
from servers import Api

from faults.checker import ENDS
from faults.cluster import Cluster
from noetl.adapters.postgres import Postgres
from noetl.adapters.stores.postgres import PostgresStore
from noetl.service.executions.verification import StoreCheck

SETTLED = 120.0
"""Seconds after the last replacement in which every execution must end."""
AWAY = 30.0
"""Seconds for which a start may find no server."""
ITERATIONS = 6
PLAYBOOK = f"""
apiVersion: noetl.io/v2
kind: Playbook
metadata: {{name: upgraded, path: tests/upgraded}}
workflow:
  - step: start
    loop:
      in: "{{{{ range({ITERATIONS}) }}}}"
      iterator: i
      spec: {{mode: parallel, max_in_flight: 2}}
    tool:
      - work:
          kind: python
          args: {{i: "{{{{ iter.i }}}}"}}
          code: |
            import time
            time.sleep(0.3)
            result = i + 1
      - end: {{kind: noop, result: "{{{{ _prev }}}}"}}
    next:
      arcs:
        - step: sum
          when: "{{{{ event.name == 'loop.done' }}}}"
          args: {{all: "{{{{ event.payload.results }}}}"}}
  - step: sum
    tool: {{kind: noop, result: "{{{{ args.all | sum }}}}"}}
"""


class Report(msgspec.Struct, kw_only=True):
    """``away`` is the longest time for which a start found no server."""

    executions: int
    replaced: list[str]
    away: float
    seconds: float
    exits: list[str]
    wrong: list[str]


def run(
    code: Path,
    folder: Path,
    *,
    servers: int = 2,
    workers: int = 3,
    width: int = 6,
    pause: float = 4.0,
    say: Callable[[str], None] = lambda _: None,
) -> Report:
    """Upgrade a cluster whose processes run ``code``, a folder with the package.

    ``width`` executions are under way; ``pause`` seconds lie between replacements.
    """
    cluster = Cluster(folder, servers, workers, nats=True, ttl=5.0, code=code)
    try:
        with asyncio.Runner() as runner:
            return runner.run(_Upgrade(cluster, width, pause, say).run())
    finally:
        cluster.close()


class _Upgrade:
    def __init__(
        self, cluster: Cluster, width: int, pause: float, say: Callable[[str], None]
    ) -> None:
        self._cluster = cluster
        self._width = width
        self._pause = pause
        self._say = say
        self._started: dict[str, str] = {}
        self._away = 0.0
        self._ends = False

    async def run(self) -> Report:
        began, cluster = time.monotonic(), self._cluster
        clients = [asyncio.create_task(self._use(n)) for n in range(self._width)]
        parts = [*cluster.servers, *cluster.workers]
        for name in parts:
            await asyncio.sleep(self._pause)
            self._say(f"{len(self._started)} executions; replacing {name}")
            await asyncio.to_thread(cluster.replace, name, None)
            cluster.supervise()
        await asyncio.sleep(self._pause)
        self._ends = True
        async with asyncio.timeout(SETTLED):
            await asyncio.gather(*clients)
        cluster.supervise()
        return Report(
            executions=len(self._started),
            replaced=parts,
            away=self._away,
            seconds=time.monotonic() - began,
            exits=cluster.exits,
            wrong=await self._check(),
        )

    async def _use(self, client: int) -> None:
        """Start one execution after the other, and wait for the end of each."""
        number = 0
        while not self._ends:
            key = f"{client}-{number}"
            body = {"playbook": PLAYBOOK, "idempotency_key": key}
            answer = await self._ask(number, "POST", "/api/executions", body)
            execution_id = answer["execution_id"]
            self._started[key] = execution_id
            path = f"/api/executions/{execution_id}"
            while True:
                document = await self._ask(number, "GET", path)
                if document["status"] == "completed":
                    break
                await asyncio.sleep(0.2)
            number += 1

    async def _ask(self, first: int, method: str, path: str, body: object = None):  # type: ignore[no-untyped-def]
        """Ask one server after the other until one answers."""
        began, urls = time.monotonic(), self._cluster.urls
        token, attempt = self._cluster.token, first
        while True:
            api = Api(urls[attempt % len(urls)], token)
            try:
                answer = await asyncio.to_thread(api.call, method, path, body)
            except (OSError, http.client.HTTPException) as error:
                said = repr(error)
            else:
                if answer.status < 300:
                    self._away = max(self._away, time.monotonic() - began)
                    return answer.body
                said = str(answer.body)
                assert answer.status >= 500, said
            assert time.monotonic() < began + AWAY, f"no server answers: {said}"
            attempt += 1
            await asyncio.sleep(0.1)

    async def _check(self) -> list[str]:
        wrong: list[str] = []
        database = Postgres(self._cluster.database)
        store = await PostgresStore.open(database)
        rows = await database.fetch("SELECT execution_id FROM noetl.execution")
        if {name for (name,) in rows} != {*self._started.values()}:
            wrong.append(f"{len(rows)} executions, {len(self._started)} were started")
        wrong += [f"{each.table}: {each.message}" for each in await store.strays()]
        check = StoreCheck(store, None, lambda about, body: None)
        for name in self._started.values():
            found = await check.verify(name)
            wrong += [f"{name}: {breach}" for breach in found.breaches]
            events = await store.read(name)
            ends = Counter(e.iteration_id for e in events if e.name in ENDS)
            if len(ends) != ITERATIONS or set(ends.values()) != {1}:
                wrong.append(f"{name}: iterations do not end exactly once")
            done = next(e for e in reversed(events) if e.name == "step.done")
            if done.payload.get("result") != sum(range(1, ITERATIONS + 1)):
                wrong.append(f"{name}: the result is {done.payload.get('result')}")
        await database.close()
        return wrong
