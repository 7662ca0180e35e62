"""NoETL for the side-by-side harness: embedded, as a server, and as a cluster.

BENCH_ENGINES=bench BENCH_PROJECT=. python …/run.py --engines noetl-embedded,…

A step's body is ``x + 1``, as a python task in a process of its own; the ``-noop``
variants have it in a template instead, so what they measure is the engine alone.
``noetl-embedded`` works inside the driver, the others are asked over HTTP.
"""

import asyncio
import os
import sys
import uuid
from pathlib import Path

from harness import WIDTH, Engine, free_port, main

VENV = "noetl"
PACKAGES = ["-e $BENCH_PROJECT[cluster]"]
VARIANTS = {
    "noetl-embedded": {"BENCH_NOETL": "embedded"},
    "noetl-embedded-noop": {"BENCH_NOETL": "embedded", "BENCH_NOETL_BODY": "noop"},
    "noetl-server": {"BENCH_NOETL": "server"},
    "noetl-server-noop": {"BENCH_NOETL": "server", "BENCH_NOETL_BODY": "noop"},
    "noetl-cluster": {"BENCH_NOETL": "cluster"},
    "noetl-cluster-noop": {"BENCH_NOETL": "cluster", "BENCH_NOETL_BODY": "noop"},
}
NEEDS = {"noetl-cluster": ["postgres"], "noetl-cluster-noop": ["postgres"]}

HEAD = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: %(name)s, path: bench/%(name)s}
workload: {n: 1}
workflow:
"""
CHAIN = """
  - step: work
    tool: %(body)s
    next:
      arcs:
        - step: work
          when: "{{ event.payload.result < workload.n }}"
          args: {x: "{{ event.payload.result }}"}
"""
FANOUT = """
  - step: spread
    loop:
      in: "{{ range(workload.n) }}"
      iterator: x
      spec: {mode: parallel, max_in_flight: %(width)s}
    tool: %(body)s
    next:
      arcs:
        - step: total
          when: "{{ event.name == 'loop.done' }}"
          args: {results: "{{ event.payload.results }}"}
  - step: total
    tool: {kind: noop, result: "{{ args.results | sum }}"}
"""
BODIES = {
    "python": '{kind: python, args: {x: "{{ %s }}"}, code: "result = x + 1"}',
    "noop": '{kind: noop, result: "{{ (%s) + 1 }}"}',
}


def playbooks(body: str) -> dict[str, str]:
    texts = {
        "chain": (CHAIN, "args.x | default(0)"),
        "fanout": (FANOUT, "iter.x"),
    }
    return {
        name: HEAD % {"name": name} + text % {"body": BODIES[body] % x, "width": WIDTH}
        for name, (text, x) in texts.items()
    }


class Noetl(Engine):
    """The work is the same for every host; ``execute`` is what differs."""

    playbooks = playbooks(os.environ.get("BENCH_NOETL_BODY", "python"))

    async def execute(self, name: str, n: int) -> int:
        raise NotImplementedError

    async def chain(self, n):
        return await self.execute("chain", n)

    async def fanout(self, n):
        return await self.execute("fanout", n)

    async def backlog(self, n):
        gate = asyncio.Semaphore(2 * WIDTH)

        async def one():
            async with gate:
                return await self.execute("chain", 3)

        return sum(await asyncio.gather(*(one() for _ in range(n))))

    async def once(self):
        return await self.execute("chain", 1)


class Embedded(Noetl):
    """Orchestrator and executor in the driver, on one SQLite log."""

    async def start(self):
        from noetl.adapters.blobs.files import FileBlobs
        from noetl.adapters.catalogs.files import FileCatalog, pin
        from noetl.adapters.secrets.memory import MemorySealed
        from noetl.adapters.stores.sqlite import SqliteStore
        from noetl.adapters.tools import BUILTIN
        from noetl.adapters.tools.registry import make_tools
        from noetl.dialects import load
        from noetl.runtime.clock import SystemClock
        from noetl.runtime.executor import Executor
        from noetl.runtime.keychain import Keyring
        from noetl.runtime.orchestrator import Orchestrator

        blobs = FileBlobs(str(self.state / "blobs"))
        self.store = SqliteStore.open(self.state / "log.db")
        catalog = FileCatalog([self.state], blobs, frozenset(), BUILTIN)
        keys = Keyring(None, MemorySealed())
        clock = SystemClock()
        self.orchestrator = Orchestrator(
            self.store, blobs, catalog, clock, keys, pool="bench"
        )
        self.tools = make_tools(WIDTH, keys)
        executor = Executor(
            self.orchestrator, self.tools, clock, owner="bench", slots=WIDTH
        )
        self.loaded = {}
        for name, text in self.playbooks.items():
            loaded = load(text, BUILTIN)
            assert loaded.playbook is not None, loaded.diagnostics
            about = await pin(loaded, text.encode(), None, blobs)
            self.loaded[name] = loaded.playbook, about
        self.ends = {}
        self.orchestrator.watch(self.note)
        self.tasks = [
            asyncio.ensure_future(work)
            for work in (executor.serve(), self.orchestrator.serve())
        ]

    def note(self, events):
        if events[-1].name == "playbook.processed":
            self.ends.pop(events[-1].execution_id).set_result(None)

    async def execute(self, name, n):
        from noetl.embedded import new_execution_id
        from noetl.engine.decide import Request

        playbook, about = self.loaded[name]
        execution_id = new_execution_id()
        end = self.ends[execution_id] = self.loop.create_future()
        request = Request(execution_id, about, {**playbook.workload, "n": n})
        await self.orchestrator.start(playbook, request)
        await end
        state = self.orchestrator.state(execution_id)
        self.orchestrator.forget(execution_id)
        return state.result

    async def stop(self):
        for task in self.tasks:
            task.cancel()
        for tool in self.tools.values():
            await tool.close()
        await self.store.close()


class Server(Noetl):
    """`noetl server start`, on SQLite, with workers of its own; asked over HTTP."""

    async def start(self, **settings):
        import aiohttp

        home, port = self.state / "home", free_port()
        self.env = {
            "NOETL_HOME": str(home),
            "NOETL_SLOTS": str(WIDTH),
            "NOETL_START_RATE": "1000000",
            **settings,
        }
        noetl = Path(sys.executable).with_name("noetl")
        self.noetl = noetl
        command = [noetl, "server", "start", "--foreground", "--port", port]
        url = f"http://127.0.0.1:{port}"
        self.spawn("server", command, f"{url}/readyz", env=self.env)
        await self.join(url)
        token = (home / "token").read_text().strip()
        self.http = aiohttp.ClientSession(
            url,
            raise_for_status=True,
            headers={"Authorization": f"Bearer {token}"},
            connector=aiohttp.TCPConnector(limit=2 * WIDTH),
        )
        for text in self.playbooks.values():
            async with self.http.post("/api/catalog", json={"playbook": text}):
                pass

    async def join(self, url):
        """Nobody else is needed."""

    async def execute(self, name, n):
        body = {"path": f"bench/{name}", "workload": {"n": n}}
        async with self.http.post("/api/executions?wait=60", json=body) as answer:
            return (await answer.json())["result"]

    async def stop(self):
        await self.http.close()


class Cluster(Server):
    """A server on PostgreSQL and NATS, and two worker processes."""

    uses_postgres = True

    async def start(self):
        from noetl.cluster.nats import _find_program

        nats = free_port()
        folder = self.state / "nats"
        command = [_find_program(), "-js", "-sd", folder, "-a", "127.0.0.1", "-p", nats]
        self.spawn("nats", command, nats)
        database = f"noetl_{uuid.uuid4().hex[:8]}"
        await self.create(database)
        await super().start(
            NOETL_DATABASE=f"{os.environ['BENCH_PG']}/{database}",
            NOETL_NATS=f"nats://127.0.0.1:{nats}",
        )

    async def create(self, database):
        import asyncpg

        connection = await asyncpg.connect(f"{os.environ['BENCH_PG']}/postgres")
        await connection.execute(f"CREATE DATABASE {database}")
        await connection.close()

    async def join(self, url):
        slots = str(WIDTH // 2)
        for number in (1, 2):
            command = [self.noetl, "worker", "start", "--foreground", "--slots", slots]
            env = {**self.env, "NOETL_SERVER": url}
            self.spawn(f"worker{number}", command, env=env)


if __name__ == "__main__":
    hosts = {"embedded": Embedded, "server": Server, "cluster": Cluster}
    main(hosts[os.environ.get("BENCH_NOETL", "embedded")])
