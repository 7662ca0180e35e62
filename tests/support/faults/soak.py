"""A soak: moderate load and rare faults for hours, and figures that must stay flat."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar

from faults.clients import Clients
from faults.cluster import Cluster
from faults.ordeal import Scenario
from faults.parts import Part
from faults.samples import percentile

RARE_S = (15.0, 40.0)
"""Seconds between two faults."""


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
