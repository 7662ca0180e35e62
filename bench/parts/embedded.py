"""Points of the curves of the embedded runtime.

python -m parts.embedded NAME SIZE

CPU is that of this process, which has the engine, on a log of its own in the folder for
temporary files. The body of a step is a template, so what is left is the engine.
"""

from __future__ import annotations

import asyncio
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import closing
from pathlib import Path

import msgspec

from noetl.bench import Host, playbooks
from parts.curves import Point, peak

TEXTS = playbooks("noop")
HEAD = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: curve, path: bench/curve}
workload: {n: 1}
"""
LOOP = (
    HEAD
    + """
workflow:
  - step: work
    loop:
      in: "{{ range(workload.n) }}"
      iterator: x
      spec: {mode: parallel, max_in_flight: %d}
    tool: {kind: noop, result: "{{ iter.x + 1 }}"}
"""
)
VALUES = (
    HEAD
    + """
workflow:
  - step: make
    tool: {kind: python, args: {n: "{{ workload.n }}"}, code: "result = 'x' * n"}
    next: {arcs: [{step: count, args: {text: "{{ event.payload.result | ref }}"}}]}
  - step: count
    tool: {kind: python, args: {text: "{{ args.text }}"}, code: result = len(text)}
"""
)
ROW = 1_000
ROWS = (
    HEAD
    + """
workflow:
  - step: make
    tool:
      kind: duckdb
      command: "SELECT repeat('x', 989) AS text FROM range({{ workload.n // 1000 }})"
    next: {arcs: [{step: count, args: {rows: "{{ event.payload.result | ref }}"}}]}
  - step: count
    tool:
      - sum:
          kind: duckdb
          tables: {made: "{{ args.rows | ref }}"}
          command: SELECT count(*) AS rows FROM made
      - answer: {kind: noop, result: "{{ _prev.rows[0].rows }}"}
"""
)
UNITS = 20_000
"""So many are measured where a size is smaller, in rounds; the median counts."""
ROUNDS = 10
HANDED_ON = 20

Work = Callable[[Host], Awaitable[object]]


async def measure(
    size: int,
    work: Work,
    units: int,
    *,
    texts: Mapping[str, str] = TEXTS,
    before: Work | None = None,
    rounds: int | None = None,
) -> Point:
    with tempfile.TemporaryDirectory() as folder:
        host = Host(Path(folder))
        await host.start(texts)
        try:
            await host.execute(next(iter(texts)), 1)
            start = peak()
            if before is not None:
                await before(host)
            cpu, wall, kept = [], [], size_of(Path(folder))
            for _ in range(rounds or max(1, UNITS // units)):
                began = time.process_time(), time.perf_counter()
                await work(host)
                cpu.append(time.process_time() - began[0])
                wall.append(time.perf_counter() - began[1])
            kept = size_of(Path(folder)) - kept
        finally:
            await host.close()
    return Point(
        size,
        round(statistics.median(cpu) / units * 1e6, 1),
        round(peak(), 1),
        round(peak() - start, 1),
        round(units / statistics.median(wall), 1),
        round(kept / units / len(cpu), 1),
    )


def size_of(folder: Path) -> int:
    """Bytes of the pages in use: tables and indexes of the log."""
    with closing(sqlite3.connect(folder / "log.db")) as db:
        pragmas = ("page_count", "freelist_count", "page_size")
        pages, free, size = (db.execute(f"PRAGMA {p}").fetchone()[0] for p in pragmas)
    return int((pages - free) * size)


async def iterations(size: int) -> Point:
    return await loop(size, size, 64)


async def in_flight(size: int) -> Point:
    return await loop(size, 2_000, size)


async def loop(size: int, count: int, width: int) -> Point:
    """Nobody reads its results: they are as many as the iterations."""
    return await measure(
        size,
        lambda host: host.execute("loop", count),
        count,
        texts={"loop": LOOP % width},
    )


async def steps(size: int) -> Point:
    return await measure(size, lambda host: host.execute("chain", size), size)


async def executions(size: int) -> Point:
    """One more, in a log that has so many."""

    async def fill(host: Host) -> None:
        for _ in range(0, size, 100):
            await asyncio.gather(*(host.execute("chain", 1) for _ in range(100)))

    async def more(host: Host) -> None:
        for _ in range(500):
            await host.execute("chain", 1)

    return await measure(size, more, 500, before=fill, rounds=ROUNDS)


async def concurrent(size: int) -> Point:
    count = max(2 * size, 400)

    async def work(host: Host) -> None:
        gate = asyncio.Semaphore(size)

        async def one() -> None:
            async with gate:
                await host.execute("chain", 3)

        await asyncio.gather(*(one() for _ in range(count)))

    return await measure(size, work, count, rounds=ROUNDS)


async def payload(size: int) -> Point:
    """Rows: they go from one tool to the next without the engine's reading them."""
    return await hand_on(size, ROWS, size // ROW)


async def values(size: int) -> Point:
    """A text that the engine reads, for code."""
    return await hand_on(size, VALUES, size)


async def hand_on(size: int, text: str, answer: int) -> Point:
    count = max(1, min(HANDED_ON, 10**7 // size))

    async def work(host: Host) -> None:
        for _ in range(count):
            assert await host.execute("hand_on", size) == answer

    return await measure(size, work, count, texts={"hand_on": text}, rounds=3)


TAKES = {
    "iterations": iterations,
    "steps": steps,
    "executions": executions,
    "concurrent": concurrent,
    "in-flight": in_flight,
    "payload": payload,
    "values": values,
}

if __name__ == "__main__":
    found = asyncio.run(TAKES[sys.argv[1]](int(sys.argv[2])))
    sys.stdout.buffer.write(msgspec.json.encode(found))
