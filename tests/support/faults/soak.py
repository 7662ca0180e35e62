"""A soak: moderate load and rare faults for hours, and figures that must stay flat."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import ClassVar

import msgspec

from faults.clients import Clients
from faults.cluster import Cluster
from faults.ordeal import Part, Scenario

RARE_S = (15.0, 40.0)
"""Seconds between two faults."""
WARM_UP = 1
"""Parts of a session that are not compared: caches and connections grow in them."""
GROWTH = {"memory (MB)": 1.05, "descriptors": 1.1, "bytes an execution": 1.1}
"""How often the first compared value a later one may be, within one session."""
LATENCY_GROWTH = 1.2
NOISE = {"memory (MB)": 8.0, "descriptors": 8.0, "bytes an execution": 200.0}
"""What a value may be above that, whatever the first one was."""
LATENCY_NOISE_MS = 40.0


class Sample(msgspec.Struct, kw_only=True):
    """What one part has measured of the processes that no fault has touched."""

    session: int
    seconds: float
    executions: int
    faults: int
    figures: dict[str, float]
    p99_ms: float


def judge(samples: Sequence[Sample]) -> list[str]:
    """Return which figures grew within a session, after its warm-up."""
    wrong = []
    for session in sorted({each.session for each in samples}):
        parts = [each for each in samples if each.session == session][WARM_UP:]
        for first, later in ((parts[0], each) for each in parts[1:]):
            for name, growth in GROWTH.items():
                was, now = first.figures[name], later.figures[name]
                if now > was * growth + NOISE[name]:
                    wrong.append(f"session {session}: {name} {was:.0f}, then {now:.0f}")
        if len(parts) > 1:
            was, now = parts[0].p99_ms, parts[-1].p99_ms
            if now > was * LATENCY_GROWTH + LATENCY_NOISE_MS:
                wrong.append(f"session {session}: p99 {was:.0f} ms, then {now:.0f} ms")
    return wrong


def memory_of(pid: int) -> float:
    """Return the resident memory of a process in MB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def descriptors_of(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


class Soak(Scenario):
    """A worker, a server, NATS or PostgreSQL is killed now and then. The first server
    and the first worker are spared: their memory and descriptors are measured."""

    name: ClassVar[str] = "soak"
    rest: ClassVar[float] = 3.0
    verifies: ClassVar[bool] = False

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._turn = 0

    async def strike(self, cluster: Cluster, dice: random.Random) -> str:
        await asyncio.sleep(dice.uniform(*RARE_S))
        spared = {cluster.servers[0], cluster.workers[0]}
        names = [name for name in cluster.parts if name not in spared]
        name = names[self._turn % len(names)]
        self._turn += 1
        await asyncio.to_thread(cluster.kill, name)
        await asyncio.to_thread(cluster.start, name)
        return f"{name.rstrip('0123456789')} killed"

    def inspect(self, part: Part, clients: Clients) -> Iterable[str]:
        spared = (self._cluster.servers[0], self._cluster.workers[0])
        pids = [self._cluster.pid_of(name) for name in spared]
        part.figures["memory (MB)"] = sum(map(memory_of, pids))
        part.figures["descriptors"] = sum(map(descriptors_of, pids))
        part.figures["p99 (ms)"] = 1000 * percentile(clients.latencies, 0.99)
        return ()


def percentile(values: Sequence[float], share: float) -> float:
    ranked = sorted(values)
    return ranked[min(int(len(ranked) * share), len(ranked) - 1)] if ranked else 0.0
