"""Servers and workers are killed, again and again: nothing is lost, nothing done twice
that was recorded once, and nobody has to help."""

from __future__ import annotations

import asyncio
import os
import random
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from servers import Api

from noetl.adapters.postgres import Postgres
from noetl.adapters.secrets.token import read_token
from noetl.adapters.stores.postgres import PostgresStore
from noetl.engine.evolve import replay
from noetl.engine.invariants import Audit

ITERATIONS = int(os.environ.get("CLUSTER_ITERATIONS", "1000"))
KILLS = int(os.environ.get("CLUSTER_KILLS", "60"))
HUNG = 300.0

LOOP = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: storm, path: tests/storm}
workload: {count: 10, dsn: ""}
workflow:
  - step: start
    loop:
      in: "{{ range(workload.count) }}"
      iterator: i
      spec: {mode: parallel, max_in_flight: 16}
    tool:
      - think: {kind: noop, result: "{{ iter.i }}"}
      - keep:
          kind: postgres
          dsn: "{{ workload.dsn }}"
          command: "INSERT INTO public.kept (i) VALUES ($1)"
          params: ["{{ iter.i }}"]
          spec: {idempotency: key}
      - end: {kind: noop, result: "{{ iter.i + 1 }}"}
    next:
      arcs:
        - step: sum
          when: "{{ event.name == 'loop.done' }}"
          args: {all: "{{ event.payload.results }}"}
  - step: sum
    tool: {kind: noop, result: "{{ args.all | sum }}"}
"""


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


class Cluster:
    """Two servers and three workers, each a process that may die at any moment."""

    def __init__(self, folder: Path, database: str) -> None:
        self._environ = {
            **os.environ,
            "NOETL_HOME": str(folder),
            "NOETL_DATABASE": database,
            "NOETL_LEASE_TTL": "2",
            "NOETL_RESULTS_URL": f"file://{folder}/results",
        }
        self.home = folder
        self.ports = [free_port(), free_port()]
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.start("server0")
        self.wait(self.ports[0])
        second = folder / "second"  # a home each, one key and one token for both
        second.mkdir()
        for shared in ("key", "token"):
            if (folder / shared).exists():
                shutil.copy(folder / shared, second / shared)
        self.start("server1")
        self.wait(self.ports[1])
        self._environ["NOETL_TOKEN"] = read_token(folder / "token")
        for number in range(3):
            self.start(f"worker{number}")

    def start(self, name: str) -> None:
        command = [sys.executable, "-m", "noetl"]
        environ = self._environ
        if name.startswith("server"):
            number = int(name[-1])
            home = self.home if number == 0 else self.home / "second"
            environ = {**environ, "NOETL_HOME": str(home)}
            port = str(self.ports[number])
            command += ["server", "start", "--foreground", "--port", port]
        else:
            command += ["worker", "start", "--foreground", "--slots", "6"]
            for port in self.ports:
                command += ["--server", f"http://127.0.0.1:{port}"]
        self.processes[name] = subprocess.Popen(
            command,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def wait(self, port: int) -> None:
        deadline = time.monotonic() + 60
        while True:
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                return
            except OSError:
                assert time.monotonic() < deadline, "a server does not start"
                time.sleep(0.05)

    def kill(self, name: str) -> None:
        self.processes[name].kill()
        self.processes[name].wait()

    def close(self) -> None:
        for process in self.processes.values():
            process.kill()
            process.wait()


@pytest.mark.spec("S-45", "S-46", "WKR-02", "SRV-09", "SRV-10")
def test_a_storm_of_kills_loses_nothing(postgres: str, tmp_path: Path) -> None:
    asyncio.run(prepare(postgres))
    cluster = Cluster(tmp_path / "home", postgres)
    dice = random.Random(7)
    try:
        api = Api(
            f"http://127.0.0.1:{cluster.ports[0]}", read_token(cluster.home / "token")
        )
        inputs = {"count": ITERATIONS, "dsn": postgres}
        started = api.post("/api/executions", {"playbook": LOOP, "workload": inputs})
        assert started.status == 201, started.body
        execution_id = started.body["execution_id"]
        for _ in range(KILLS):
            time.sleep(dice.uniform(0.1, 0.6))
            name = dice.choice(sorted(cluster.processes))
            cluster.kill(name)
            cluster.start(name)
        state, found = asyncio.run(finished(postgres, execution_id))
    finally:
        cluster.close()

    assert (state.status, state.result) == ("completed", sum(range(1, ITERATIONS + 1)))
    assert found == list(range(ITERATIONS))


async def prepare(address: str) -> None:
    database = Postgres(address)
    await database.fetch("CREATE TABLE public.kept (i integer)")
    await database.close()


async def finished(address: str, execution_id: str) -> tuple[Any, list[int]]:
    """The end of the execution, whose log is whole, and what the tasks have kept."""
    database = Postgres(address)
    store = await PostgresStore.open(database)
    async with asyncio.timeout(HUNG):
        while (await store.summary(execution_id)).finished_at is None:  # noqa: ASYNC110
            await asyncio.sleep(0.2)  # other processes ring no bell here
    assert await store.verify(execution_id) is None
    events, audit = await store.read(execution_id), Audit()
    breaches = [breach for event in events for breach in audit.take(event)]
    assert [*breaches, *audit.end()] == []
    kept = await database.fetch("SELECT i FROM public.kept ORDER BY i")
    await database.close()
    return replay(events), [i for (i,) in kept]
