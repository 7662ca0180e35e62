"""W7: the bytes that engines keep on the disk after the same work.

    .venv/bin/python bench/peer_storage.py HARNESS [--engines restate,noetl-embedded,…]

HARNESS is the folder of the side-by-side harness; `bench/noetl_engines.py` says what
that is. Each engine does each work from nothing, in a state folder of its own: a chain
of steps, a parallel loop, and many executions of three steps. After that it is stopped,
SQLite files are checkpointed and vacuumed, and databases of PostgreSQL are vacuumed
in full. What it keeps without the work is subtracted, and the rest divided by the
steps. Where a loop of 10,000 takes longer than a minute, a shorter one is measured.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import asyncpg

ENGINES = (
    "noetl-embedded,noetl-cluster,restate,temporal-local,dbos-sqlite,dbos-postgres"
)
HERE = Path(__file__).resolve().parent
WORKS = {"chain": 1_000, "fanout": 10_000, "backlog": 1_000}
STEPS = 3
"""Steps of each execution of the backlog."""
LIMIT = 900.0
SUFFIXES = {".db", ".sqlite"}
HEADINGS = (
    "| engine | a step of a chain of 1,000 | a task of a parallel loop"
    " | a step of 1,000 executions of 3 | without work |\n|---|---|---|---|---|"
)


def compact(folder: Path) -> None:
    """Checkpoint and vacuum the SQLite files of a state folder."""
    for path in folder.rglob("*"):
        if path.suffix in SUFFIXES and path.read_bytes()[:6] == b"SQLite":
            with closing(sqlite3.connect(path, timeout=60)) as db:
                db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
                db.execute("VACUUM")
                db.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def size_of(folder: Path) -> int:
    """Return the bytes on the disk, without what the harness writes about processes."""
    total = 0
    for path in folder.rglob("*"):
        if path.is_file() and not (path.parent == folder and path.suffix == ".log"):
            about = path.stat()
            total += min(about.st_size, about.st_blocks * 512)
    return total


async def take_databases(address: str) -> int:
    """Vacuum and remove the databases that an engine made; return their bytes."""
    total = 0
    connection = await asyncpg.connect(f"{address}/postgres")
    names = await connection.fetch(
        "SELECT datname FROM pg_database WHERE NOT datistemplate AND datname <> $1",
        "postgres",
    )
    for (name,) in names:
        inside = await asyncpg.connect(f"{address}/{name}")
        await inside.execute("VACUUM FULL")
        await inside.close()
        total += await connection.fetchval("SELECT pg_database_size($1)", name)
        await connection.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
    await connection.close()
    return total


def keep(harness: Any, name: str, spec: Any, work: str, n: int) -> tuple[int, int]:
    """Let an engine do the work; return the bytes that it keeps, and its units."""
    python = harness.venv(spec["venv"], spec["packages"])
    harness.npm(spec["npm"])
    state = harness.STORAGE["disk"] / f"{name}-{work}"
    shutil.rmtree(state, ignore_errors=True)
    command = [python, HERE / "parts" / "stored.py", harness.HERE, spec["path"], state]
    with (state.parent / f"{name}-{work}.log").open("w") as log:
        done = subprocess.run(
            [*command, work, str(n)],
            env=harness.child_env(**spec["env"]),
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            timeout=LIMIT,
        )
    if done.returncode:
        raise RuntimeError(f"{name} failed at {work}: see {log.name}")
    compact(state)
    total = size_of(state)
    if "postgres" in spec["needs"]:
        total += asyncio.run(take_databases(os.environ["BENCH_PG"]))
    shutil.rmtree(state)
    return total, int(done.stdout.split()[-1])


def measure(harness: Any, name: str, spec: Any, part: int) -> str:
    start, _ = keep(harness, name, spec, "nothing", 0)
    cells = []
    for work, n in WORKS.items():
        total, units = keep(harness, name, spec, work, n // part)
        steps = units * STEPS if work == "backlog" else units
        short = f" (of {units:,})" if work == "fanout" and units < n // part else ""
        cells.append(f"{(total - start) / steps:,.0f} B{short}")
        print(f"{name} {work}: {units} units, {total - start} bytes", file=sys.stderr)
    return f"| {name} | {' | '.join(cells)} | {start / 1e6:,.1f} MB |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("harness", type=Path, help="folder of the harness")
    parser.add_argument("--engines", default=ENGINES)
    parser.add_argument("--part", type=int, default=1, help="do a part of the work")
    options = parser.parse_args()
    os.environ["BENCH_ENGINES"] = str(HERE)
    os.environ.setdefault("BENCH_PROJECT", str(HERE.parent))
    sys.path.insert(0, str(options.harness))
    harness: Any = importlib.import_module("run")
    known, names = harness.engines(), options.engines.split(",")
    root = harness.STORAGE["disk"]
    root.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        if any("postgres" in known[name]["needs"] for name in names):
            stack.enter_context(harness.Postgres(root))
        print(HEADINGS, flush=True)
        for name in names:
            print(measure(harness, name, known[name], options.part), flush=True)


if __name__ == "__main__":
    main()
