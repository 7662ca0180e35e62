"""Benchmark of NoETL on this machine, compared with the disk itself."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

import msgspec

from noetl.adapters.blobs.files import FileBlobs
from noetl.adapters.catalogs.files import FileCatalog, pin
from noetl.adapters.secrets.execution_secrets import MemorySealed
from noetl.adapters.stores.sqlite import SqliteStore
from noetl.adapters.tools import BUILTIN
from noetl.adapters.tools.registry import make_tools
from noetl.dialects import load
from noetl.dsl.model import Playbook
from noetl.engine.decide import Request
from noetl.engine.events import Event
from noetl.ports import Tool
from noetl.runtime.event_loop import SystemClock, end_tasks
from noetl.runtime.keychain import Keyring
from noetl.runtime.make_orchestrator import make_orchestrator
from noetl.runtime.values.stores import Results
from noetl.runtime.worker.executor import Executor
from noetl.types import JSON
from noetl.wiring.identifiers import new_execution_id

ROWS = 6
"""Number of events that a step of a chain commits."""
BODY, HASH = bytes(420), bytes(32)


def sync_rate(folder: Path, seconds: float) -> float:
    """Measure synced appends of 4 KiB per second."""
    path = folder / "sync"
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        count, began = 0, time.perf_counter()
        while (took := time.perf_counter() - began) < seconds:
            os.write(file, bytes(4096))
            os.fsync(file)
            count += 1
        return count / took
    finally:
        os.close(file)
        path.unlink()


def commit_rate(folder: Path, seconds: float) -> float:
    """Measure commits per second of one step's rows, as durable as the log's."""
    with TemporaryDirectory(dir=folder) as place:
        return _commit_rate(Path(place) / "commits.db", seconds)


def _commit_rate(path: Path, seconds: float) -> float:
    db = sqlite3.connect(path, isolation_level=None)
    try:
        for setting in ("journal_mode = WAL", "synchronous = FULL"):
            db.execute(f"PRAGMA {setting}")
        db.execute("PRAGMA wal_autocheckpoint = 512")  # the write-ahead log is reused
        db.execute("CREATE TABLE event (key INTEGER PRIMARY KEY, hash BLOB, body BLOB)")
        count, began = 0, time.perf_counter()
        while (took := time.perf_counter() - began) < seconds:
            rows = [(count * ROWS + each, HASH, BODY) for each in range(ROWS)]
            db.execute("BEGIN IMMEDIATE")
            db.executemany("INSERT INTO event VALUES (?, ?, ?)", rows)
            db.execute("COMMIT")
            count += 1
        return count / took
    finally:
        db.close()


Body = Literal["python", "noop"]

WIDTH = 64
"""Maximum number of iterations of the loop in flight."""

_HEAD = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: %(name)s, path: bench/%(name)s}
workload: {n: 1}
workflow:
"""
_CHAIN = """
  - step: work
    tool: %(body)s
    next:
      arcs:
        - step: work
          when: "{{ event.payload.result < workload.n }}"
          args: {x: "{{ event.payload.result }}"}
"""
_FANOUT = """
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
_BODIES: dict[Body, str] = {
    "python": '{kind: python, args: {x: "{{ %s }}"}, code: "result = x + 1"}',
    "noop": '{kind: noop, result: "{{ (%s) + 1 }}"}',
}


def playbooks(body: Body) -> dict[str, str]:
    """Return the playbooks by name; `chain` returns n, `fanout` the sum of 1 to n."""
    texts = {"chain": (_CHAIN, "args.x | default(0)"), "fanout": (_FANOUT, "iter.x")}
    return {
        name: _HEAD % {"name": name}
        + text % {"body": _BODIES[body] % x, "width": WIDTH}
        for name, (text, x) in texts.items()
    }


POOL = "bench"


class Host:
    """A host that is as durable as ``noetl run``: answers are on the disk."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._blobs = FileBlobs(str(folder / "blobs"))
        self._store = SqliteStore.open(folder / "log.db")
        catalog = FileCatalog([folder], self._blobs, frozenset(), BUILTIN)
        keys, clock = Keyring({}, MemorySealed()), SystemClock()
        self._orchestrator = make_orchestrator(
            self._store, Results(self._blobs), catalog, clock, keys, pool=POOL
        )
        self._tools: Mapping[str, Tool] = make_tools(WIDTH, keys)
        self._executor = Executor(
            self._orchestrator.assignment, self._tools, clock, owner=POOL, slots=WIDTH
        )
        self._playbooks: dict[str, tuple[Playbook, dict[str, JSON]]] = {}
        self._ends: dict[str, asyncio.Future[None]] = {}
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self, texts: Mapping[str, str]) -> None:
        for name, text in texts.items():
            loaded = load(text, BUILTIN)
            assert loaded.playbook is not None, loaded.diagnostics
            about = await pin(loaded, text.encode(), None, self._blobs)
            self._playbooks[name] = loaded.playbook, about
        self._orchestrator.watch(self._note)
        for work in (self._executor.serve(), self._orchestrator.serve()):
            self._tasks.append(asyncio.create_task(work))

    async def execute(self, name: str, n: int) -> JSON:
        """Run a playbook to its end and return its result."""
        playbook, about = self._playbooks[name]
        execution_id = new_execution_id()
        end = asyncio.get_running_loop().create_future()
        self._ends[execution_id] = end
        request = Request(execution_id, about, {**playbook.workload, "n": n})
        await self._orchestrator.start(playbook, request)
        await end
        result = self._orchestrator.cache[execution_id].state.result
        self._orchestrator.cache.evict(execution_id)
        return result

    async def close(self) -> None:
        await end_tasks(self._tasks)
        for tool in self._tools.values():
            await tool.close()
        await self._store.close()

    def _note(self, events: Sequence[Event]) -> None:
        if events[-1].name == "playbook.processed":
            self._ends.pop(events[-1].execution_id).set_result(None)


STEPS = 3
"""Number of steps of each execution of the backlog."""


class Size(msgspec.Struct, frozen=True):
    """The amount of work for one figure, and the number of repetitions."""

    chain: int
    fanout: int
    backlog: int
    latency: int
    repeats: int
    seconds: float


WHOLE = Size(1_000, 10_000, 1_000, 200, 3, 1.0)
QUICK = Size(100, 1_000, 100, 50, 1, 0.2)


class Figure(msgspec.Struct, frozen=True):
    """A figure; ``limit`` is the disk's own rate at the same time, if there is one."""

    name: str
    value: float
    unit: str
    limit: str | None = None


async def measure(
    folder: Path, body: Body, size: Size, tell: Callable[[str], None]
) -> list[Figure]:
    host = Host(folder / body)
    await host.start(playbooks(body))
    try:
        figures = []
        for name, take in _measures(host, size):
            tell(f"{body}: {name}")
            commits = commit_rate(folder, size.seconds)
            syncs = sync_rate(folder, size.seconds)
            figures.append(_figure(name, await take(), commits, syncs))
        return figures
    finally:
        await host.close()


Take = Callable[[], Awaitable[float]]


def _measures(host: Host, size: Size) -> Iterator[tuple[str, Take]]:
    async def chain() -> float:
        return await _seconds(host, "chain", size.chain, size.chain) / size.chain

    async def fanout() -> float:
        total = size.fanout * (size.fanout + 1) // 2
        return size.fanout / await _seconds(host, "fanout", size.fanout, total)

    async def backlog() -> float:
        gate, began = asyncio.Semaphore(2 * WIDTH), time.perf_counter()

        async def one() -> None:
            async with gate:
                await _seconds(host, "chain", STEPS, STEPS)

        await asyncio.gather(*(one() for _ in range(size.backlog)))
        return size.backlog / (time.perf_counter() - began)

    async def latency() -> float:
        taken = [await _seconds(host, "chain", 1, 1) for _ in range(size.latency)]
        return statistics.median(taken)

    for take in (chain, fanout, backlog, latency):
        yield take.__name__, _median(take, size.repeats)


def _median(take: Take, repeats: int) -> Take:
    async def repeated() -> float:
        await take()  # the first run is only a warm-up
        return statistics.median([await take() for _ in range(repeats)])

    return repeated


async def _seconds(host: Host, name: str, n: int, expected: int) -> float:
    began = time.perf_counter()
    answer = await host.execute(name, n)
    took = time.perf_counter() - began
    if answer != expected:
        raise AssertionError(f"{name} of {n} returned {answer!r}, expected {expected}")
    return took


def _figure(name: str, value: float, commits: float, syncs: float) -> Figure:
    match name:
        case "chain":
            raw = 1e3 / commits
            limit = f"{raw:.2f} ms for a bare commit of its rows"
            return Figure("chain of steps", value * 1e3, "ms a step", limit)
        case "fanout":
            return Figure("parallel loop", value, "iterations/s")
        case "backlog":
            unit = f"executions of {STEPS} steps/s"
            limit = f"{syncs:,.0f} synced writes/s of the disk"
            return Figure("backlog", value, unit, limit)
        case _:
            raw = 1e3 / syncs
            limit = f"{raw:.2f} ms for a synced write"
            return Figure("latency of one step", value * 1e3, "ms (median)", limit)
