"""NoETL for the side-by-side harness: embedded, as a server, and as a cluster.

BENCH_ENGINES=bench BENCH_PROJECT=. python …/run.py --engines noetl-embedded,…

A step's body is ``x + 1``, as a python task in a process of its own; the ``-noop``
variants have it in a template instead, so what they measure is the engine alone.
``noetl-embedded`` works inside the driver, the others are asked over HTTP.
"""

import asyncio
import gc
import os
import sys
import uuid
from abc import abstractmethod
from pathlib import Path

from harness import WIDTH, Engine, free_port, main

from noetl.bench import playbooks

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


class Noetl(Engine):
    """The work is the same for every host; ``execute`` is what differs."""

    texts = playbooks(os.environ.get("BENCH_NOETL_BODY", "python"))

    @abstractmethod
    async def execute(self, name: str, n: int) -> int:
        """Run a playbook to its end; its result."""

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
    """The engine in the driver, on one SQLite log, as `noetl run` has it."""

    async def start(self):
        from noetl.bench import Host

        gc.disable()  # as in every short life of the command
        self.host = Host(self.state)
        await self.host.start(self.texts)

    async def execute(self, name, n):
        return await self.host.execute(name, n)

    async def stop(self):
        await self.host.close()


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
        for text in self.texts.values():
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
        from noetl.local.services.nats import find_program

        nats = free_port()
        folder = self.state / "nats"
        command = [find_program(), "-js", "-sd", folder, "-a", "127.0.0.1", "-p", nats]
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
