"""CPU of the embedded runtime in two checkouts, in turns.

python bench/embedded_steps.py --against CHECKOUT [--rounds N]

Each round runs the same work in a process of each checkout, with its state in memory
(/dev/shm), so that no disk is in the figure. CPU is that of the process and of those
that run its code. A ratio is the median of the ratios of the rounds.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from statistics import median
from typing import Any

ROOT = Path(__file__).parents[1]
BODIES = ("python", "noop")
RAM = "/dev/shm"


def processes(pid: int) -> list[int]:
    """Return a process and all that descend from it."""
    found, parents = [pid], {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            stat = (folder / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        parents.setdefault(int(stat[1]), []).append(int(folder.name))
    for each in found:
        found += parents.get(each, [])
    return found


def cpu() -> float:
    """Return the seconds of CPU of this process and of its children."""
    total = time.process_time()
    for pid in processes(os.getpid())[1:]:
        try:
            total += int(Path(f"/proc/{pid}/schedstat").read_text().split()[0]) / 1e9
        except OSError:
            continue
    return total


async def measure(body: str) -> dict[str, float]:
    """Return the microseconds of CPU of a unit of each work."""
    from noetl import bench as module

    host_class: Any = getattr(module, "Host", None)
    texts: Any = getattr(module, "playbooks", None)
    if host_class is None:  # a checkout from before the modules were merged
        from noetl.bench.host import Host as host_class
        from noetl.bench.playbooks import playbooks as texts
    found: dict[str, float] = {}
    gc.disable()
    with tempfile.TemporaryDirectory(dir=RAM) as folder:
        host = host_class(Path(folder))
        await host.start(texts(body))
        await host.execute("chain", 20)
        await host.execute("fanout", 200)

        async def take(name: str, units: int, work: Callable[[], Awaitable[Any]]):
            began = cpu()
            await work()
            found[name] = (cpu() - began) / units * 1e6

        async def backlog() -> None:
            gate = asyncio.Semaphore(128)

            async def one() -> None:
                async with gate:
                    await host.execute("chain", 3)

            await asyncio.gather(*(one() for _ in range(300)))

        async def one_by_one() -> None:
            for _ in range(150):
                await host.execute("chain", 1)

        await take("a step of a chain", 500, lambda: host.execute("chain", 500))
        await take("an iteration", 4000, lambda: host.execute("fanout", 4000))
        await take("an execution of three steps", 300, backlog)
        await take("an execution of one step, alone", 150, one_by_one)
        await host.close()
    return found


def run(checkout: Path, body: str) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, __file__, "--body", body],
        env={**os.environ, "PYTHONPATH": str(checkout / "src")},
        capture_output=True,
        text=True,
        check=True,
    )
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--against", type=Path, default=ROOT)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--body", choices=BODIES)
    asked = parser.parse_args()
    if asked.body:
        print(json.dumps(asyncio.run(measure(asked.body))))
        return
    trees = {"there": asked.against.resolve(), "here": ROOT}
    print("| work | there, µs CPU | here | ratio |\n|---|---|---|---|")
    for body in BODIES:
        taken: dict[str, list[dict[str, float]]] = {name: [] for name in trees}
        for number in range(asked.rounds):
            for name in sorted(trees, reverse=number % 2 == 0):
                taken[name].append(run(trees[name], body))
        for work in taken["here"][0]:
            there = [each[work] for each in taken["there"]]
            here = [each[work] for each in taken["here"]]
            ratio = median(b / a for a, b in zip(there, here, strict=True))
            row = f"| {work}, {body} | {median(there):.0f} | {median(here):.0f} |"
            print(f"{row} {ratio:.3f} |", flush=True)


if __name__ == "__main__":
    main()
