"""Whole runs of the command: CPU and memory per iteration and step, listings.

python bench/runs.py [--long]

Each is a process of its own with an empty home, so the figures hold start-up, SQLite
and everything else; that of a run of nothing is subtracted. CPU is user and system
time, because disks of shared machines differ tenfold from minute to minute. ``--long``
adds a loop of a million iterations, which takes some minutes.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from noetl.adapters.stores.sqlite import SqliteStore
from noetl.engine.events import Event
from noetl.ports import Append, Summary, Transition

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: b, path: bench/b}\n"
LOOP = HEAD + (
    "workflow:\n"
    "  - step: start\n"
    "    loop:\n"
    '      in: "{{ range(workload.n) }}"\n'
    "      iterator: x\n"
    "      spec: {mode: parallel, max_in_flight: 64}\n"
    '    tool: {kind: noop, result: "{{ iter.x + 1 }}"}\n'
)
STEP = "  - {step: s%d, tool: {kind: noop}, next: {arcs: [{step: s%d}]}}\n"
CHAIN_LENGTH = 1_000
PAST_RUNS = 10_000
START = "2026-11-15T08:00:00.000000Z"


class Used(NamedTuple):
    cpu: float
    wall: float
    memory: int
    output: bytes


def noetl(home: Path, *args: str) -> Used:
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "noetl", *args],
        stdout=subprocess.PIPE,
        env={**os.environ, "NOETL_HOME": str(home)},
    )
    assert process.stdout is not None
    output = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == 0, output
    cpu = usage.ru_utime + usage.ru_stime
    return Used(cpu, time.perf_counter() - began, usage.ru_maxrss // 1024, output)


def run(folder: Path, text: str, *args: str) -> Used:
    playbook = folder / "playbook.yaml"
    playbook.write_text(text)
    with tempfile.TemporaryDirectory(dir=folder) as home:
        used = noetl(Path(home), "run", str(playbook), "--json", *args)
    assert json.loads(used.output)["status"] == "completed"
    return used


def loops(folder: Path, sizes: list[int]) -> None:
    nothing = run(folder, LOOP, "--set", "n=0")
    print(f"{'a loop of nothing':<28} {nothing.cpu:8.2f} s CPU {nothing.memory:5} MB")
    first = 0.0
    for size in sizes:
        used = run(folder, LOOP, "--set", f"n={size}")
        each = (used.cpu - nothing.cpu) / size * 1e6
        first = first or each
        print(
            f"{f'a loop of {size:,}':<28} {used.cpu:8.2f} s CPU {used.memory:5} MB "
            f"{each:7.1f} µs CPU per iteration ({each / first:.2f} x), "
            f"{size / used.wall:,.0f} per second"
        )


def chain(folder: Path) -> None:
    steps = [STEP % (number, number + 1) for number in range(CHAIN_LENGTH)]
    last = f"  - {{step: s{CHAIN_LENGTH}, tool: {{kind: noop}}}}\n"
    used = run(folder, HEAD + "workflow:\n" + "".join(steps) + last)
    took = json.loads(used.output)["duration_ms"] / CHAIN_LENGTH
    name = f"a chain of {CHAIN_LENGTH:,}"
    print(f"{name:<28} {used.cpu:8.2f} s CPU, {took:.2f} ms a step")


async def fill(home: Path) -> None:
    """Past runs, as the store has them."""
    store = SqliteStore.open(home / "log.db")
    for first in range(0, PAST_RUNS, 500):
        await store.commit([past(number) for number in range(first, first + 500)])
    await store.close()


def past(number: int) -> Transition:
    name = f"01a1e1ce-{number // 0x10000:04x}-7{number % 0x1000:03x}-8000-{number:012x}"
    event = Event(
        event_id=f"{name}.1",
        execution_id=name,
        seq=1,
        timestamp=START,
        source="server",
        name="playbook.execution.requested",
        entity_type="playbook",
        parent_id=None,
        entity_id=name,
        status="in_progress",
        payload={"playbook": {"name": "b"}, "trace_id": "0" * 32},
    )
    summary = Summary(name, "completed", {"name": "b", "path": "bench/b"}, START, START)
    return Transition(execution_id=name, log=Append(0, [event]), summary=summary)


def listing(folder: Path) -> None:
    with tempfile.TemporaryDirectory(dir=folder) as home:
        asyncio.run(fill(Path(home)))
        best = min((noetl(Path(home), "list") for _ in range(5)), key=lambda u: u.wall)
    print(
        f"{f'list of {PAST_RUNS:,} runs':<28} {best.cpu:8.2f} s CPU, "
        f"{best.wall:.2f} s in all"
    )


def main() -> None:
    sizes = [10_000, 1_000_000] if "--long" in sys.argv else [10_000, 50_000]
    with tempfile.TemporaryDirectory() as folder:
        loops(Path(folder), sizes)
        chain(Path(folder))
        listing(Path(folder))


if __name__ == "__main__":
    main()
