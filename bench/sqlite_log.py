"""The log on SQLite beside raw commits of the same bytes: ratios, machines differ.

python bench/sqlite_log.py [FOLDER]

Rounds of all candidates alternate, so that a busy disk is busy for each of them; a
figure is the median commit of the best round.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from statistics import median

from noetl.adapters.stores.encoding import encode
from noetl.adapters.stores.sqlite import SqliteStore
from noetl.adapters.stores.sqlite.connection import connect_writer
from noetl.adapters.stores.sqlite.writer import CHECKPOINT
from noetl.engine.events import Event
from noetl.ports import (
    Append,
    Command,
    CommandChanges,
    Lease,
    Reports,
    Summary,
    Transition,
)

EVENTS = 6
COMMITS = 400
GROUP = 100
GROUPS = 12
ROUNDS = 5
START = "2026-11-15T08:00:00.000000Z"
PAYLOAD = {"outcome": {"status": "ok", "result": {"rows": 17, "text": "x" * 120}}}


def event(execution_id: str, seq: int) -> Event:
    run = f"{execution_id}-{seq // EVENTS}"
    return Event(
        event_id=f"{execution_id}.{seq}",
        execution_id=execution_id,
        seq=seq,
        timestamp=START,
        source="worker",
        name="task.done",
        entity_type="task",
        parent_id=None,
        entity_id=f"{run}:fetch.1",
        status="success",
        step="fetch",
        step_run_id=run,
        task_label="fetch",
        attempt=1,
        payload=PAYLOAD,
    )


def transition(execution_id: str, after: int, lease: Lease | None = None) -> Transition:
    playbook = {"name": "orders", "path": "shop/orders", "sha256": "0" * 64}
    number = after // EVENTS
    return Transition(
        execution_id=execution_id,
        log=Append(
            after, [event(execution_id, after + n) for n in range(1, EVENTS + 1)]
        ),
        summary=Summary(execution_id, "running", playbook, START),
        reports=Reports([lease] if lease else []),
        commands=CommandChanges(
            [Command(f"{execution_id}-{number}", execution_id)] if lease else [],
            ended=[lease.command_id] if lease else [],
        ),
    )


def identity(number: int) -> str:
    return f"019361f0-0000-7000-8000-{number:012x}"


def raw(path: Path, rows: int, commits: int) -> Iterator[None]:
    """Nothing but rows, in a recycled write-ahead log that is synced."""
    db = connect_writer(path)
    db.execute("CREATE TABLE event (key INTEGER PRIMARY KEY, hash BLOB, body BLOB)")
    [item] = encode([transition(identity(1), 0)])
    body, digest, key, written = item.bodies[0], b"\0" * 32, 0, 0
    for _ in range(commits):
        db.execute("BEGIN IMMEDIATE")
        batch = [(key + n, digest, body) for n in range(rows)]
        db.executemany("INSERT INTO event VALUES (?, ?, ?)", batch)
        db.execute("COMMIT")
        yield
        key += rows
        written += rows * len(body)
        if written > CHECKPOINT // 2:
            db.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
            written = 0
    db.close()


async def chain(
    path: Path, threaded: bool, leased: bool, together: bool = False
) -> AsyncIterator[None]:
    """One execution, one commit after the other; ``leased``: a whole step boundary."""
    store = SqliteStore.open(path, threaded=threaded)
    name = identity(1)
    lease = None
    if leased:
        first = transition(name, 0)
        command = Command(f"{name}-first", name)
        await store.commit([replace_commands(first, command)])
        [lease] = await store.claim("w", pool="default", slots=1, now=1.0, ttl=30)
    for number in range(leased, COMMITS + leased):
        group = [transition(name, number * EVENTS, lease)]
        yield
        if together:
            claim = store.claim("w", pool="default", slots=1, now=1.0, ttl=30)
            _, [lease] = await asyncio.gather(store.commit(group), claim)
        elif leased:
            await store.commit(group)
            [lease] = await store.claim("w", pool="default", slots=1, now=1.0, ttl=30)
        else:
            await store.commit(group)
        yield
    await store.close()


def replace_commands(first: Transition, command: Command) -> Transition:
    return Transition(
        execution_id=first.execution_id,
        log=first.log,
        summary=first.summary,
        commands=CommandChanges([command]),
    )


async def crowd(path: Path, threaded: bool) -> AsyncIterator[None]:
    """Executions that all commit at once."""
    store = SqliteStore.open(path, threaded=threaded)
    for number in range(GROUPS):
        after = number * EVENTS
        groups = [[transition(identity(n), after)] for n in range(GROUP)]
        yield
        await asyncio.gather(*(store.commit(group) for group in groups))
        yield
    await store.close()


def time_raw(path: Path, rows: int, commits: int) -> list[float]:
    times, began = [], time.perf_counter()
    for _ in raw(path, rows, commits):
        times.append(time.perf_counter() - began)
        began = time.perf_counter()
    return times[1:]  # the first one opened the file


def time_store(work: AsyncIterator[None]) -> list[float]:
    async def run() -> list[float]:
        times, began, inside = [], 0.0, False
        async for _ in work:
            if inside:
                times.append(time.perf_counter() - began)
            inside = not inside
            began = time.perf_counter()
        return times

    return asyncio.run(run())


def candidates() -> dict[str, Callable[[Path], list[float]]]:
    return {
        "raw": lambda path: time_raw(path, EVENTS, COMMITS),
        "direct": lambda path: time_store(chain(path, False, False)),
        "threaded": lambda path: time_store(chain(path, True, False)),
        "direct, boundary": lambda path: time_store(chain(path, False, True)),
        "  in one turn": lambda path: time_store(chain(path, False, True, True)),
        "threaded, boundary": lambda path: time_store(chain(path, True, True)),
        "raw x 100": lambda path: time_raw(path, EVENTS * GROUP, GROUPS),
        "direct x 100": lambda path: time_store(crowd(path, False)),
        "threaded x 100": lambda path: time_store(crowd(path, True)),
    }


def main() -> None:
    root = Path(tempfile.mkdtemp(dir=sys.argv[1] if sys.argv[1:] else "."))
    best: dict[str, float] = {}
    try:
        for number in range(ROUNDS):
            for name, measure in candidates().items():
                taken = median(measure(root / f"{number}-{name}.db"))
                best[name] = min(taken, best.get(name, taken))
    finally:
        shutil.rmtree(root)
    print(f"{EVENTS} events a commit; a boundary is commit, command and claim")
    print("(in one turn of the loop these share one transaction)")
    print(f"{'':<22}{'ms':>9}{'ratio':>8}{'rows/s':>11}")
    for name, taken in best.items():
        crowded = name.endswith("100")
        ratio = taken / best["raw x 100" if crowded else "raw"]
        rows = EVENTS * (GROUP if crowded else 1) / taken
        print(f"{name:<22}{taken * 1e3:>9.3f}{ratio:>8.2f}{rows:>11,.0f}")


if __name__ == "__main__":
    main()
