"""How the cost of a unit changes with the number of units: it should not.

python bench/scaling.py [--long] [--out docs/explanation/scaling.md]

Every figure is CPU time of the process with the engine, on a log of its own in the
folder for temporary files; disks of shared machines differ tenfold from minute to
minute, processors less. The body of a step is a template, so what is left is the
engine. ``--long`` goes to a million iterations and a hundred thousand executions.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import resource
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from noetl.bench.host import Host
from noetl.bench.playbooks import playbooks

TEXTS = playbooks("noop")
PAYLOAD = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: payload, path: bench/payload}
workload: {n: 1}
workflow:
  - step: make
    tool: {kind: python, args: {n: "{{ workload.n }}"}, code: "result = 'x' * n"}
    next:
      arcs:
        - {step: count, args: {text: "{{ event.payload.result }}"}}
  - step: count
    tool:
      kind: python
      args: {text: "{{ args.text }}"}
      code: result = len(text)
"""


async def cost(work: Callable[[], Awaitable[object]], units: int) -> float:
    """Microseconds of CPU for each unit, the better of two."""
    best = float("inf")
    for _ in range(2):
        began = time.process_time()
        await work()
        best = min(best, (time.process_time() - began) / units * 1e6)
    return best


def memory() -> str:
    return f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB"


async def on_host(
    texts: dict[str, str], work: Callable[[Host], Awaitable[float]]
) -> float:
    with tempfile.TemporaryDirectory() as folder:
        host = Host(Path(folder))
        await host.start(texts)
        try:
            await host.execute(next(iter(texts)), 1)
            return await work(host)
        finally:
            await host.close()


async def iterations(size: int) -> float:
    return await on_host(
        TEXTS, lambda host: cost(lambda: host.execute("fanout", size), size)
    )


async def steps(size: int) -> float:
    return await on_host(
        TEXTS, lambda host: cost(lambda: host.execute("chain", size), size)
    )


async def concurrent(width: int) -> float:
    async def work(host: Host) -> float:
        count = max(width, 200)
        gate = asyncio.Semaphore(width)

        async def one() -> None:
            async with gate:
                await host.execute("chain", 3)

        return await cost(
            lambda: asyncio.gather(*(one() for _ in range(count))), count * 3
        )

    return await on_host(TEXTS, work)


async def in_flight(width: int) -> float:
    texts = {
        name: text.replace("max_in_flight: 64", f"max_in_flight: {width}")
        for name, text in TEXTS.items()
    }
    return await on_host(
        texts, lambda host: cost(lambda: host.execute("fanout", 2_000), 2_000)
    )


async def past(executions: int) -> float:
    """One more execution, in a log that has so many."""

    async def work(host: Host) -> float:
        for _ in range(0, executions, 100):
            await asyncio.gather(*(host.execute("chain", 1) for _ in range(100)))

        async def some() -> None:
            for _ in range(200):
                await host.execute("chain", 1)

        return await cost(some, 200)

    return await on_host(TEXTS, work)


async def payload(size: int) -> float:
    return await on_host(
        {"payload": PAYLOAD},
        lambda host: cost(lambda: host.execute("payload", size), 1),
    )


Curve = tuple[str, str, Callable[[int], Awaitable[float]], Sequence[int]]


def curves(*, long: bool) -> list[Curve]:
    many = [100, 1_000, 10_000, *([100_000, 1_000_000] if long else [])]
    logs = [100, 1_000, *([10_000, 100_000] if long else [])]
    sizes = [1_000, 100_000, 10_000_000, *([100_000_000] if long else [])]
    return [
        ("iterations of a loop", "µs an iteration", iterations, many),
        ("steps of a chain", "µs a step", steps, [100, 1_000, 10_000]),
        ("executions at once", "µs a step", concurrent, [1, 10, 100, 1_000]),
        ("iterations in flight", "µs an iteration", in_flight, [1, 4, 16, 64]),
        ("executions in the log", "µs for one more", past, logs),
        ("bytes of a result", "µs for two steps", payload, sizes),
    ]


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--long", action="store_true")
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    gc.disable()
    lines = []
    for title, unit, take, sizes in curves(long=options.long):
        lines += [
            "",
            f"| {title} | {unit} | ratio | memory so far |",
            "|---|---|---|---|",
        ]
        first = 0.0
        for size in sizes:
            found = await take(size)
            gc.collect()
            first = first or found
            ratio = f"{found / first:.2f}"
            lines.append(f"| {size:,} | {found:,.0f} | {ratio} | {memory()} |")
            print(lines[-1], flush=True)
    text = "\n".join(lines).strip() + "\n"
    if options.out:
        options.out.write_text(text)


if __name__ == "__main__":
    asyncio.run(main())
