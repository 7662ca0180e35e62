"""Lets a cluster work for hours, in parts that can be interrupted, and measures it.

    scripts/soak.py [--hours 8] [--minutes 10] [--seed N] [--state build/soak] [--again]

The database stays in the folder of ``--state``, with the measurements of finished
parts: the next call goes on with new processes, a new session. Memory, descriptors,
bytes of the log for each execution and the p99 latency must not grow within a session;
all executions are verified in the end. The parts are written to ``bench/SOAK.md``. Exit
code 1 if a figure grows or anything is wrong.
"""

from __future__ import annotations

import argparse
import asyncio
import shutil
import signal
import sys
import time
from pathlib import Path

import asyncpg
import msgspec

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests" / "support"))

from faults.cluster import Cluster  # noqa: E402
from faults.evidence import verify_all  # noqa: E402
from faults.ledger import Ledger  # noqa: E402
from faults.ordeal import Ordeal  # noqa: E402
from faults.samples import Sample, judge  # noqa: E402
from faults.soak import Soak  # noqa: E402
from result_table import write_row  # noqa: E402

TABLE = ROOT / "bench" / "SOAK.md"
PAGE = ROOT / "docs" / "explanation" / "reliability-campaigns.md"
HEAD = """# Soak

Written by `scripts/soak.py` (`make long`): two servers, three workers, PostgreSQL and
NATS on a machine of 2 cores that others use, too. Small executions of clients and loops
of 120 iterations are under way, and a part is killed every 15 to 40 s. Memory and
descriptors are those of one server and one worker together, which are spared. A session
ends where the soak was interrupted; its first part is its warm-up.

| session | part | time | executions | kills | memory | descriptors | log | p99 |
|---|---|---|---|---|---|---|---|---|
"""
SIZE = """
SELECT sum(pg_total_relation_size(c.oid))::bigint FROM pg_class c
JOIN pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = 'noetl' AND c.relkind = 'r' AND c.relname LIKE 'batch%'
"""


async def measure_log(address: str) -> int:
    connection = await asyncpg.connect(address)
    try:
        return int(await connection.fetchval(SIZE) or 0)
    finally:
        await connection.close()


def run_part(
    soak: Soak, cluster: Cluster, seed: int, seconds: float, session: int
) -> tuple[Sample, list[str]]:
    def say(text: str) -> None:
        print(f"{time.strftime('%H:%M:%S')}  {text}", flush=True)

    before = asyncio.run(measure_log(cluster.database))
    ledger = Ledger()
    try:
        part = asyncio.run(Ordeal(soak, cluster, ledger, seed, say).run(seconds))
    finally:
        ledger.close()
    grown = asyncio.run(measure_log(cluster.database)) - before
    executions = round(part.figures["executions"])
    figures = {
        "memory (MB)": part.figures["memory (MB)"],
        "descriptors": part.figures["descriptors"],
        "bytes an execution": grown / max(executions, 1),
    }
    sample = Sample(
        session=session,
        seconds=part.seconds,
        executions=executions,
        faults=sum(part.faults.values()),
        figures=figures,
        p99_ms=part.figures["p99 (ms)"],
    )
    return sample, part.wrong


def write_table(samples: list[Sample]) -> None:
    lines = []
    for number, each in enumerate(samples, 1):
        memory, descriptors, size = each.figures.values()
        cells = [each.session, number, f"{each.seconds / 60:.1f} min"]
        cells += [f"{each.executions:,}", each.faults, f"{memory:.0f} MB"]
        cells += [round(descriptors), f"{size / 1024:.1f} KiB", f"{each.p99_ms:.0f} ms"]
        lines.append("| " + " | ".join(map(str, cells)) + " |")
    TABLE.write_text(HEAD + "\n".join(lines) + "\n")
    first, last = samples[0].figures, samples[-1].figures
    seen = [f"{sum(each.seconds for each in samples) / 3600:.2f} h"]
    seen += [f"{sum(each.executions for each in samples):,} executions"]
    seen += [f"{sum(each.faults for each in samples):,} kills"]
    seen += [f"{name} {first[name]:,.0f} to {last[name]:,.0f}" for name in first]
    seen += [f"p99 {samples[0].p99_ms:.0f} ms to {samples[-1].p99_ms:.0f} ms"]
    wrong = len(judge(samples))
    print(write_row("soak", len(samples), wrong, "; ".join(seen), PAGE), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--hours", type=float, default=8.0)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=int(time.time()) % 1_000_000)
    parser.add_argument("--state", type=Path, default=ROOT / "build" / "soak")
    parser.add_argument("--again", action="store_true")
    asked = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # what it started ends, too
    if asked.again:
        shutil.rmtree(asked.state, ignore_errors=True)
    asked.state.mkdir(parents=True, exist_ok=True)
    file = asked.state / "samples.jsonl"
    samples = []
    if file.exists():
        lines = file.read_bytes().splitlines()
        samples = [msgspec.json.decode(line, type=Sample) for line in lines]
        print(f"going on after {len(samples)} parts", flush=True)
    session, wrong = max((each.session for each in samples), default=0) + 1, []
    seed = asked.seed
    cluster = Cluster(asked.state / "home", 2, 3, nats=True)
    try:
        soak = Soak(cluster)
        while sum(each.seconds for each in samples) < asked.hours * 3600 and not wrong:
            seed += 1
            sample, wrong = run_part(soak, cluster, seed, asked.minutes * 60, session)
            if wrong:
                break
            samples.append(sample)
            with file.open("ab") as output:
                output.write(msgspec.json.encode(sample) + b"\n")
            write_table(samples)
        wrong += judge(samples)
        wrong += verify_all(cluster.environ_of(cluster.servers[0]))
    finally:
        cluster.close()
    for each in wrong[:30]:
        print(f"wrong: {each}")
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
