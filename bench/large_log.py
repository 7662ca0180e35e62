"""What a log of 1,000,000 events costs its readers.

    .venv/bin/python bench/large_log.py [--iterations 250000] [--stores sqlite,postgres]

A parallel loop makes the log in the embedded runtime, once to its end and once until
its process is gone, shortly before the end. The rows are copied into PostgreSQL: both
stores have the same. Each figure is the median of some readings. To open an execution
is what a server does before it decides on it: the snapshot, the events after it, the
playbook and the keychain.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any

import asyncpg
from parts.embedded import LOOP

from noetl.adapters.blobs.files import FileBlobs
from noetl.adapters.catalogs.files import FileCatalog
from noetl.adapters.postgres import Postgres
from noetl.adapters.secrets.execution_secrets import MemorySealed
from noetl.adapters.stores.postgres import PostgresStore
from noetl.adapters.stores.sqlite import SqliteStore
from noetl.adapters.tools import BUILTIN
from noetl.bench import Host
from noetl.engine.events import Event
from noetl.runtime.event_loop import SystemClock
from noetl.runtime.executions.cache import ExecutionCache
from noetl.runtime.keychain import Keyring
from noetl.service.executions.views.states import States

PEER = Path(__file__).parents[1] / "tests" / "support" / "peers" / "postgres.py"
PASSWORD = "bench"
READINGS = 7
PAGE = 100
PAGES = 20
EVENTS_AN_ITERATION = 4
COLUMNS = {
    "execution": "number, execution_id, status, last_seq, last_hash, summary",
    "batch": "execution, last_seq, events, dictionary, hash, body",
    "snapshot": "execution, seq, body",
}
PLACE = "key >> 32 AS execution, key & 0xffffffff AS last_seq"
HEADINGS = (
    "| store | log | events | rows | snapshot | after it | open | state |"
    f" {PAGE} first | {PAGE} in the middle | {PAGE} last |"
    f" {PAGES} pages back | verify |"
)


class Interrupted(Exception):
    """The log is long enough."""


async def make(folder: Path, iterations: int, until: int | None) -> None:
    """Run the loop; up to a position of the log, if one is given."""
    host = Host(folder)
    reached = asyncio.Event()

    def look(events: Sequence[Event]) -> None:
        if until is not None and events[-1].seq >= until:
            reached.set()

    host._orchestrator.watch(look)
    await host.start({"loop": LOOP % 64})
    work = asyncio.create_task(host.execute("loop", iterations))
    stop = asyncio.create_task(reached.wait())
    await asyncio.wait((work, stop), return_when=asyncio.FIRST_COMPLETED)
    stop.cancel()
    work.cancel()
    await host.close()


async def copy(log: Path, address: str) -> None:
    """Copy the log into the tables of PostgreSQL, row by row."""
    database = Postgres(address)
    await PostgresStore.open(database)
    await database.close()
    settings = {"search_path": "noetl"}
    connection = await asyncpg.connect(address, server_settings=settings)
    with closing(sqlite3.connect(log)) as db:
        for table, columns in COLUMNS.items():
            chosen = columns.replace("execution, last_seq", PLACE)
            rows = db.execute(f"SELECT {chosen} FROM {table}").fetchall()
            names = columns.split(", ")
            await connection.copy_records_to_table(table, records=rows, columns=names)
    await connection.execute("VACUUM ANALYZE")
    await connection.close()


async def another(address: str) -> str:
    """Make a database; return its address."""
    connection = await asyncpg.connect(address)
    name = f"log_{time.monotonic_ns()}"
    await connection.execute(f"CREATE DATABASE {name}")
    await connection.close()
    return address.rpartition("/")[0] + f"/{name}"


@contextmanager
def server() -> Iterator[str]:
    with subprocess.Popen(
        [sys.executable, "-I", str(PEER)],
        env={**os.environ, "PGPASSWORD": PASSWORD},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as peer:
        assert peer.stdout is not None
        port = int(peer.stdout.readline())
        yield f"postgresql://postgres:{PASSWORD}@127.0.0.1:{port}/postgres"
        peer.communicate()


@asynccontextmanager
async def opened(kind: str, folder: Path, address: str) -> Any:
    if kind == "sqlite":
        store = SqliteStore.open(folder / "log.db")
        yield store
        await store.close()
    else:
        database = Postgres(address)
        yield await PostgresStore.open(database)
        await database.close()


async def milliseconds(work: Callable[[], Awaitable[object]], times: int) -> float:
    taken = []
    for _ in range(times):
        gc.collect()
        began = time.perf_counter()
        await work()
        taken.append(time.perf_counter() - began)
    return statistics.median(taken) * 1e3


async def measure(kind: str, what: str, folder: Path, address: str) -> str:
    blobs = FileBlobs(str(folder / "blobs"))
    catalog = FileCatalog([folder], blobs, frozenset(), BUILTIN)
    keys, clock = Keyring({}, MemorySealed()), SystemClock()
    async with opened(kind, folder, address) as store:
        [line] = await store.find(limit=1)
        name = line.execution_id
        length, kept = await store.length(name), await store.snapshot(name)
        assert kept is not None

        async def load() -> None:
            await ExecutionCache(store, catalog, keys, clock).load(name)

        async def back() -> None:
            for page in range(1, PAGES + 1):
                await store.read(name, after=length - page * PAGE, limit=PAGE)

        def page(after: int) -> Callable[[], Awaitable[object]]:
            return lambda: store.read(name, after=after, limit=PAGE)

        works = [load, lambda: States(store).show(name, None, None)]
        works += [page(after) for after in (0, length // 2, length - PAGE)]
        figures = [await milliseconds(work, READINGS) for work in [*works, back]]
        figures.append(await milliseconds(lambda: store.verify(name), 1))
        rows = await count(kind, folder, address)
        sizes = f"{length:,} | {rows:,} | {len(kept.body):,} B | {length - kept.seq:,}"
        taken = " | ".join(f"{each:,.1f} ms" for each in figures)
        return f"| {kind} | {what} | {sizes} | {taken} |"


async def count(kind: str, folder: Path, address: str) -> int:
    if kind == "sqlite":
        with closing(sqlite3.connect(folder / "log.db")) as db:
            return int(db.execute("SELECT count(*) FROM batch").fetchone()[0])
    connection = await asyncpg.connect(address)
    found = await connection.fetchval("SELECT count(*) FROM noetl.batch")
    await connection.close()
    return int(found)


async def run(iterations: int, kinds: Sequence[str], address: str) -> None:
    print(HEADINGS, "|---" * (HEADINGS.count("|") - 1) + "|", sep="\n", flush=True)
    cut = iterations * EVENTS_AN_ITERATION - EVENTS_AN_ITERATION * 100
    for what, until in (("finished", None), ("interrupted", cut)):
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            await make(folder, iterations, until)
            for kind in kinds:
                place = ""
                if kind == "postgres":
                    place = await another(address)
                    await copy(folder / "log.db", place)
                print(await measure(kind, what, folder, place), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--iterations", type=int, default=250_000)
    parser.add_argument("--stores", default="sqlite,postgres")
    options = parser.parse_args()
    kinds = options.stores.split(",")
    with server() if "postgres" in kinds else closing(tempfile.TemporaryFile()) as peer:
        asyncio.run(run(options.iterations, kinds, str(peer)))


if __name__ == "__main__":
    main()
