"""How much memory a large result takes on its way from postgres to duckdb.

    .venv/bin/python bench/large_results.py [--sizes 2,500]

A real PostgreSQL makes a table of so many megabytes; a playbook selects it and sums it
up in DuckDB. Every 20 ms the memory (RSS) of ``noetl run`` and of its children is read
from /proc. PostgreSQL itself is not counted: it is a server of its own.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import asyncpg

ROOT = Path(__file__).parents[1]
PEER = ROOT / "tests" / "support" / "peers" / "postgres.py"
PASSWORD = "bench"
WIDE = 440  # characters of a row's text: about 500 bytes as JSON
ROW = 470
PLAYBOOK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: large_results, path: bench/large_results}
workload: {dsn: ""}
workflow:
  - step: start
    tool:
      - extract:
          kind: postgres
          dsn: "{{ workload.dsn }}"
          command: SELECT id, customer, amount, note FROM orders
      - total:
          kind: duckdb
          tables: {orders: "{{ _prev | ref }}"}
          command: >-
            SELECT count(*) AS orders, sum(amount)::BIGINT AS amount,
                   count(DISTINCT customer) AS customers, max(length(note)) AS longest
            FROM orders
"""


async def fill(dsn: str, rows: int) -> None:
    connection = await asyncpg.connect(dsn)
    await connection.execute(
        "DROP TABLE IF EXISTS orders; CREATE UNLOGGED TABLE orders AS SELECT n AS id,"
        " 'c' || n % 9973 AS customer, n % 100 AS amount,"
        f" repeat(md5(n::text), {WIDE // 32}) AS note"
        f" FROM generate_series(1, {rows}) AS n"
    )
    await connection.close()


def family(root: int) -> dict[int, int]:
    """RSS in kB by pid: the process and all that descend from it."""
    parents: dict[int, int] = {}
    memory: dict[int, int] = {}
    for entry in os.listdir("/proc"):
        if not entry.isdecimal():
            continue
        try:
            status = Path(f"/proc/{entry}/status").read_text()
        except OSError:
            continue
        fields = dict(line.split(":", 1) for line in status.splitlines() if ":" in line)
        parents[int(entry)] = int(fields["PPid"])
        memory[int(entry)] = int(fields.get("VmRSS", "0 kB").split()[0])
    found = {root}
    grew = True
    while grew:
        more = {pid for pid, parent in parents.items() if parent in found} - found
        found |= more
        grew = bool(more)
    return {pid: memory[pid] for pid in found if pid in memory}


def measure(dsn: str, folder: Path) -> tuple[dict[str, object], dict[int, int], int]:
    environ = {**os.environ, "NOETL_HOME": str(folder / "home")}
    command = [sys.executable, "-m", "noetl", "run", str(folder / "large.yaml")]
    process = subprocess.Popen(
        [*command, "--set", f"dsn={dsn}", "--json"],
        env=environ,
        stdout=subprocess.PIPE,
        text=True,
    )
    peaks: dict[int, int] = defaultdict(int)
    total = 0
    while process.poll() is None:
        now = family(process.pid)
        total = max(total, sum(now.values()))
        for pid, size in now.items():
            peaks[pid] = max(peaks[pid], size)
        time.sleep(0.02)
    assert process.stdout is not None
    document = json.loads(process.stdout.read())
    return document, {process.pid: peaks.pop(process.pid), **peaks}, total


def run(dsn: str, megabytes: int) -> None:
    asyncio.run(fill(dsn, megabytes * 1_000_000 // ROW))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "large.yaml").write_text(PLAYBOOK)
        began = time.perf_counter()
        document, peaks, total = measure(dsn, folder)
        took = time.perf_counter() - began
        assert document["status"] == "completed", document["error"]
        results = [p for p in (folder / "home" / "results").rglob("*") if p.is_file()]
        largest = max(path.stat().st_size for path in results)
        log = (folder / "home" / "log.db").stat().st_size
        own, *children = peaks.values()
        child = max(children, default=0)
        print(
            f"| {largest / 1e6:,.1f} MB | {log / 1e3:,.0f} kB | {own / 1e3:,.0f} MB "
            f"| {child / 1e3:,.0f} MB | {total / 1e3:,.0f} MB | {took:.1f} s |"
        )
        print(f"  {document['result']['rows']}", file=sys.stderr)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--sizes", default="2,500", help="megabytes, e.g. 2,500")
    sizes = [int(each) for each in parser.parse_args().sizes.split(",")]
    with subprocess.Popen(
        [sys.executable, "-I", str(PEER)],
        env={**os.environ, "PGPASSWORD": PASSWORD},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as peer:
        assert peer.stdout is not None
        port = int(peer.stdout.readline())
        dsn = f"postgresql://postgres:{PASSWORD}@127.0.0.1:{port}/postgres"
        print("| result | log | noetl, peak | largest child | all together | time |")
        print("|---|---|---|---|---|---|")
        for megabytes in sizes:
            run(dsn, megabytes)
        peer.communicate()


if __name__ == "__main__":
    main()
