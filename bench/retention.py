"""Removal of finished executions while others run: what it takes, and what it costs.

python bench/retention.py [--count 100000] [--rate 50] [--seconds 30] [--archive]

One execution is run; the others are copies of its rows, nine of ten of which ended 100
days ago. Then executions are started at a steady rate and waited for, first without and
then with ``NOETL_RETENTION=30d``: the 99th percentile from the request to the end of an
execution, the memory of the server, and the executions that are removed per second.
The server is on a PostgreSQL of the tests, which does not wait for the disk.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import aiohttp
import asyncpg
from parked import Service, peer

PLAYBOOK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: short, path: bench/short}
workflow:
  - step: start
    tool: [{one: {kind: noop}}, {two: {kind: noop}}]
    next: {arcs: [{step: end, when: "{{ event.name == 'step.done' }}"}]}
  - {step: end, tool: {kind: noop}}
"""
GROUP = 50_000
OLD = 9
"""Of ten executions so many are old."""
COPY = """
WITH first AS (
  SELECT * FROM execution WHERE status = 'completed' ORDER BY number LIMIT 1
), made AS (
  INSERT INTO execution (execution_id, status, last_seq, last_hash, summary)
  SELECT overlay(first.execution_id PLACING to_hex($1::bigint + n)
      FROM 29 FOR length(to_hex($1::bigint + n))), status, last_seq, last_hash,
    CASE WHEN n % 10 < $3 THEN regexp_replace(summary, '"20[0-9]{2}-[0-9]{2}-[0-9]{2}T',
      $4, 'g') ELSE summary END
  FROM first, generate_series(1, $2::bigint) AS n RETURNING number
)
INSERT INTO batch (execution, last_seq, events, dictionary, hash, body)
SELECT made.number, b.last_seq, b.events, b.dictionary, b.hash, b.body
FROM made, first JOIN batch AS b ON b.execution = first.number
"""


async def fill(database: str, count: int) -> None:
    """Copy the first execution, with dates of long ago for the old ones."""
    connection = await asyncpg.connect(
        database, server_settings={"search_path": "noetl"}
    )
    old = time.strftime('"%Y-%m-%dT', time.gmtime(time.time() - 100 * 86_400))
    for begin in range(0, count, GROUP):
        some = min(GROUP, count - begin)
        await connection.execute("SELECT add_partitions()")
        await connection.execute(COPY, 0x10000000 + begin, some, OLD, old)
    await connection.execute("ANALYZE")
    await connection.close()


async def count_all(database: str) -> int:
    connection = await asyncpg.connect(
        database, server_settings={"search_path": "noetl"}
    )
    try:
        return int(await connection.fetchval("SELECT count(*) FROM execution"))
    finally:
        await connection.close()


class Load:
    """Starts executions at a rate, and measures each until its end."""

    def __init__(self, service: Service) -> None:
        self._url = f"{service.url}/api/executions?wait=30"
        token = (service.home / "token").read_text().strip()
        self._said = {"Authorization": f"Bearer {token}"}
        self._times: list[float] = []

    async def run(self, rate: float, seconds: float) -> list[float]:
        connector = aiohttp.TCPConnector(limit=0)
        async with aiohttp.ClientSession(connector=connector) as session:
            began, tasks = time.perf_counter(), []
            for number in range(int(rate * seconds)):
                due = began + number / rate
                await asyncio.sleep(max(0.0, due - time.perf_counter()))
                tasks.append(asyncio.create_task(self._one(session, due)))
            await asyncio.gather(*tasks)
        return sorted(self._times)

    async def _one(self, session: aiohttp.ClientSession, due: float) -> None:
        body = {"playbook": PLAYBOOK}
        async with session.post(self._url, json=body, headers=self._said) as answer:
            document = await answer.json()
            assert document["status"] == "completed", document
        self._times.append(time.perf_counter() - due)


def percentile(times: Sequence[float], part: float) -> float:
    return times[min(len(times) - 1, int(len(times) * part))] * 1_000


async def measure(service: Service, rate: float, seconds: float) -> str:
    await Load(service).run(1.0, 3.0)  # the worker is starting
    await Load(service).run(rate, 5.0)
    times = await Load(service).run(rate, seconds)
    return (
        f"{percentile(times, 0.5):.0f} ms | {percentile(times, 0.99):.0f} ms "
        f"| {service.memory():.0f} MB"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--rate", type=float, default=50.0)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--archive", action="store_true")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, peer() as database:
        service = Service(Path(folder) / "home", database)
        with service.running():
            asyncio.run(Load(service).run(1.0, 1.0))
        began = time.perf_counter()
        asyncio.run(fill(database, options.count))
        print(f"filled in {time.perf_counter() - began:.0f} s", flush=True)
        print("| | p50 | p99 | memory |\n|---|---|---|---|")
        with service.running():
            line = asyncio.run(measure(service, options.rate, options.seconds))
        print(f"| executions are kept | {line} |", flush=True)
        os.environ["NOETL_RETENTION"] = "30d"
        if options.archive:
            os.environ["NOETL_ARCHIVE_URL"] = f"file://{folder}/archive"
        service = Service(Path(folder) / "home", database)
        before, began = asyncio.run(count_all(database)), time.perf_counter()
        with service.running():
            line = asyncio.run(measure(service, options.rate, options.seconds))
            took = time.perf_counter() - began
            started = 3 + int(options.rate * 5) + int(options.rate * options.seconds)
            gone = before + started - asyncio.run(count_all(database))
            print(f"| old ones are removed | {line} |", flush=True)
            print(f"removed {gone:,} in {took:.0f} s: {gone / took:,.0f} a second")
            left = options.count // 10 + before - options.count + started
            while (now := asyncio.run(count_all(database))) > left:
                time.sleep(1.0)
                if time.perf_counter() - began > 1_000:
                    break
            took = time.perf_counter() - began
            print(
                f"{before + started - now:,} removed in {took:.0f} s; "
                f"memory {service.memory():.0f} MB"
            )


if __name__ == "__main__":
    main()
