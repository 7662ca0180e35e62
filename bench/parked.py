"""Executions that wait for a signal: what they cost a server, and how fast they wake.

python bench/parked.py [--count 1000] [--wake 1000] [--postgres]

One execution is parked by the server itself; the others are copies of its rows, since
starting them is not what is measured. Then the server is started anew: its memory and
its CPU while nothing happens, and the time from the first signal to the last end. With
``--postgres`` the server is on a database, with one worker of 16 slots.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import aiohttp
import msgspec

from noetl.adapters.plugins.enabled import Plugins
from noetl.config import read_settings
from noetl.engine.effects import effects_of
from noetl.engine.events import Event
from noetl.local.home import Home
from noetl.ports import Append, Command, CommandChanges, Store, Summary, Transition
from noetl.types import JSON
from noetl.wiring.backend import open_backend
from noetl.wiring.identifiers import new_execution_id

ASK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: parked, path: bench/parked}
workflow:
  - step: start
    tool: [{ask: {kind: wait, signal: go, timeout: 300d}}]
    next: {arcs: [{step: end, when: "{{ event.name == 'step.done' }}"}]}
  - {step: end, tool: {kind: noop}}
"""
GROUP = 500
CLIENTS = 16
REST = 60.0
PATIENCE = 10_000
PEER = Path(__file__).parents[1] / "tests" / "support" / "peers" / "postgres.py"


class Service:
    """The server, and its worker if it is on a database."""

    def __init__(self, home: Path, database: str | None) -> None:
        self.home, self.database = home, database
        self._environ = {**os.environ, "NOETL_HOME": str(home)}
        if database is not None:
            self._environ["NOETL_DATABASE"] = database
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            self.port = int(taken.getsockname()[1])
        self.url = f"http://127.0.0.1:{self.port}"
        self.processes: list[subprocess.Popen[bytes]] = []

    @contextmanager
    def running(self) -> Iterator[None]:
        self._run("server", "start", "--foreground", "--port", str(self.port))
        while not self._answers():
            time.sleep(0.1)
        if self.database is not None:
            self._run("worker", "start", "--foreground", "--server", self.url)
        try:
            yield
        finally:
            for process in reversed(self.processes):
                process.terminate()
                process.wait()
            self.processes.clear()

    def _run(self, *command: str) -> None:
        self.processes.append(
            subprocess.Popen(
                [sys.executable, "-m", "noetl", *command],
                env=self._environ,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        )

    def _answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port)).close()
        except OSError:
            return False
        return True

    def memory(self) -> float:
        """MB of the server, resident."""
        status = Path(f"/proc/{self.processes[0].pid}/status").read_text()
        line = next(each for each in status.splitlines() if each.startswith("VmRSS"))
        return int(line.split()[1]) / 1024

    def cpu(self) -> float:
        """Seconds that the server has used, user and system."""
        fields = Path(f"/proc/{self.processes[0].pid}/stat").read_text().split()
        return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")


class Caller:
    def __init__(self, service: Service, session: aiohttp.ClientSession) -> None:
        self._url, self._session = service.url, session
        token = (service.home / "token").read_text().strip()
        self._said = {"Authorization": f"Bearer {token}"}

    async def call(self, method: str, path: str, body: JSON = None) -> JSON:
        url = self._url + path
        async with self._session.request(
            method, url, json=body, headers=self._said
        ) as answer:
            document = await answer.json()
            assert answer.status < 300, document
            return document

    async def until(self, status: str, count: int) -> None:
        """So many executions have this status."""
        for _ in range(PATIENCE):
            if await self._count(status) >= count:
                return
            await asyncio.sleep(1.0)
        raise SystemExit(f"there are no {count:,} executions with status {status}")

    async def _count(self, status: str) -> int:
        found, cursor = 0, ""
        while cursor is not None:
            query = f"status={status}&limit=1000" + (cursor and f"&cursor={cursor}")
            page = await self.call("GET", f"/api/executions?{query}")
            found, cursor = found + len(page["executions"]), page["cursor"]
        return found


async def park(service: Service) -> str:
    """One execution that waits."""
    async with aiohttp.ClientSession() as session:
        caller = Caller(service, session)
        started = await caller.call("POST", "/api/executions", {"playbook": ASK})
        execution_id = str(started["execution_id"])
        await caller.until("waiting", 1)
        return execution_id


async def copy(service: Service, first: str, count: int) -> list[str]:
    """So many more of it, as the engine would have written them."""
    backend = await open_backend(
        Home(service.home), service.database, Plugins(), read_settings()
    )
    try:
        store: Store = backend.store
        events = await store.read(first)
        summary = await store.summary(first)
        text = msgspec.json.encode(list(events)).decode()
        ids = [new_execution_id() for _ in range(count)]
        for begin in range(0, count, GROUP):
            some = ids[begin : begin + GROUP]
            await store.commit([_copied(text, summary, first, each) for each in some])
        return ids
    finally:
        await backend.closing.aclose()


def _copied(text: str, summary: Summary, first: str, new: str) -> Transition:
    events = msgspec.json.decode(text.replace(first, new), type=list[Event])
    parked = effects_of(events).parked
    return Transition(
        execution_id=new,
        log=Append(0, events),
        summary=msgspec.structs.replace(summary, execution_id=new),
        commands=CommandChanges(
            [Command(name, new, "default", due) for name, due in parked.items()]
        ),
    )


async def wake(service: Service, ids: list[str]) -> float:
    """Signal them all; seconds until the last of them has ended."""
    async with aiohttp.ClientSession() as session:
        caller = Caller(service, session)
        left = iter(ids)
        began = time.perf_counter()

        async def send() -> None:
            for each in left:
                path = f"/api/executions/{each}/signal"
                await caller.call("POST", path, {"name": "go"})

        await asyncio.gather(*(send() for _ in range(CLIENTS)))
        await caller.until("completed", len(ids))
        return time.perf_counter() - began


def measure(home: Path, database: str | None, count: int, woken: int) -> None:
    service = Service(home, database)
    with service.running():
        first = asyncio.run(park(service))
        time.sleep(2.0)
        before = service.memory()
    ids = [first, *asyncio.run(copy(service, first, count - 1))]
    with service.running():
        time.sleep(5.0)
        used = service.cpu()
        time.sleep(REST)
        parked, used = service.memory(), service.cpu() - used
        work = service.cpu()
        took = asyncio.run(wake(service, ids[:woken]))
        work = service.cpu() - work
        after = service.memory()
    kind = "PostgreSQL" if database else "SQLite"
    print(
        f"| {kind} | {count:,} | {before:.0f} MB | {parked:.0f} MB "
        f"| {used / REST * 100:.2f} % | {woken:,} in {took:.1f} s, "
        f"{work / woken * 1000:.1f} ms CPU each | {after:.0f} MB |"
    )


@contextmanager
def peer() -> Iterator[str]:
    """A PostgreSQL of one's own."""
    with subprocess.Popen(
        [sys.executable, "-I", str(PEER)],
        env={**os.environ, "PGPASSWORD": "bench"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        port = process.stdout.readline().strip()
        yield f"postgresql://postgres:bench@127.0.0.1:{port}/postgres"
        process.communicate()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=1_000)
    parser.add_argument("--wake", type=int, default=1_000)
    parser.add_argument("--postgres", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        if not options.postgres:
            measure(home, None, options.count, options.wake)
            return
        with peer() as database:
            measure(home, database, options.count, options.wake)


if __name__ == "__main__":
    main()
