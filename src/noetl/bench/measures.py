"""Measures: each answer is checked, each figure is the median of some runs."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import msgspec

from noetl.bench.host import Host
from noetl.bench.limits import commit_rate, sync_rate
from noetl.bench.playbooks import WIDTH, Body, playbooks

STEPS = 3
"""Steps of each execution of the backlog."""


class Size(msgspec.Struct, frozen=True):
    """How much is done for one figure, and how often."""

    chain: int
    fanout: int
    backlog: int
    latency: int
    repeats: int
    seconds: float


WHOLE = Size(1_000, 10_000, 1_000, 200, 3, 1.0)
QUICK = Size(100, 1_000, 100, 50, 1, 0.2)


class Figure(msgspec.Struct, frozen=True):
    """``limit`` is what the machine allowed at the same time, where there is one."""

    name: str
    value: float
    unit: str
    limit: str | None = None


async def measure(
    folder: Path, body: Body, size: Size, tell: Callable[[str], None]
) -> list[Figure]:
    host = Host(folder / body)
    await host.start(playbooks(body))
    try:
        figures = []
        for name, take in _measures(host, size):
            tell(f"{body}: {name}")
            commits = commit_rate(folder, size.seconds)
            syncs = sync_rate(folder, size.seconds)
            figures.append(_figure(name, await take(), commits, syncs))
        return figures
    finally:
        await host.close()


Take = Callable[[], Awaitable[float]]


def _measures(host: Host, size: Size) -> Iterator[tuple[str, Take]]:
    async def chain() -> float:
        return await _seconds(host, "chain", size.chain, size.chain) / size.chain

    async def fanout() -> float:
        total = size.fanout * (size.fanout + 1) // 2
        return size.fanout / await _seconds(host, "fanout", size.fanout, total)

    async def backlog() -> float:
        gate, began = asyncio.Semaphore(2 * WIDTH), time.perf_counter()

        async def one() -> None:
            async with gate:
                await _seconds(host, "chain", STEPS, STEPS)

        await asyncio.gather(*(one() for _ in range(size.backlog)))
        return size.backlog / (time.perf_counter() - began)

    async def latency() -> float:
        taken = [await _seconds(host, "chain", 1, 1) for _ in range(size.latency)]
        return statistics.median(taken)

    for take in (chain, fanout, backlog, latency):
        yield take.__name__, _median(take, size.repeats)


def _median(take: Take, repeats: int) -> Take:
    async def repeated() -> float:
        await take()  # the first one only warms up
        return statistics.median([await take() for _ in range(repeats)])

    return repeated


async def _seconds(host: Host, name: str, n: int, expected: int) -> float:
    began = time.perf_counter()
    answer = await host.execute(name, n)
    took = time.perf_counter() - began
    if answer != expected:
        raise AssertionError(f"{name} of {n} answered {answer!r}, not {expected}")
    return took


def _figure(name: str, value: float, commits: float, syncs: float) -> Figure:
    match name:
        case "chain":
            raw = 1e3 / commits
            limit = f"{raw:.2f} ms for a bare commit of its rows"
            return Figure("chain of steps", value * 1e3, "ms a step", limit)
        case "fanout":
            return Figure("parallel loop", value, "iterations/s")
        case "backlog":
            unit = f"executions of {STEPS} steps/s"
            limit = f"{syncs:,.0f} synced writes/s of the disk"
            return Figure("backlog", value, unit, limit)
        case _:
            raw = 1e3 / syncs
            limit = f"{raw:.2f} ms for a synced write"
            return Figure("latency of one step", value * 1e3, "ms (median)", limit)
