"""Scenarios in which parts are restarted, or PostgreSQL is killed."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterable
from typing import ClassVar

from faults.clients import Clients, Probe
from faults.cluster import POSTGRES, Cluster
from faults.ordeal import Scenario
from faults.parts import Part


class RollingRestart(Scenario):
    """Servers and workers are stopped and started, one after the other.

    No client may notice it: with two servers, each call is answered.
    """

    name: ClassVar[str] = "rolling restart"
    at_least: ClassVar[int] = 5
    required: ClassVar[frozenset[str]] = frozenset({"server", "worker"})

    def __init__(self) -> None:
        self._turn = 0
        self._wrong: list[str] = []

    async def strike(self, cluster: Cluster, dice: random.Random) -> str:
        names = [*cluster.servers, *cluster.workers]
        name = names[self._turn % len(names)]
        self._turn += 1
        await asyncio.sleep(dice.uniform(0.2, 1.0))
        code = await asyncio.to_thread(cluster.stop, name)
        if code != 0:
            self._wrong.append(f"{name} ended with exit code {code}")
        cluster.start(name)
        if name in cluster.servers:
            number = cluster.servers.index(name)
            await asyncio.to_thread(cluster.await_server, number)
        return name.rstrip("0123456789")

    def inspect(self, part: Part, clients: Clients) -> Iterable[str]:
        yield from self._wrong
        part.figures["calls that failed"] = clients.unanswered
        if clients.unanswered:
            yield f"{clients.unanswered} calls were not answered in a rolling restart"


class PostmasterKill(Scenario):
    """PostgreSQL is killed (``kill -9``) under load, and starts again.

    The wait is the time from when it is ready until an execution is accepted.
    """

    name: ClassVar[str] = "postmaster killed"

    def __init__(self) -> None:
        self._probe: Probe | None = None
        self._waits: list[float] = []

    async def strike(self, cluster: Cluster, dice: random.Random) -> str:
        await asyncio.sleep(dice.uniform(1.0, 3.0))
        await asyncio.to_thread(cluster.kill, POSTGRES)
        await asyncio.sleep(dice.uniform(0.0, 2.0))
        await asyncio.to_thread(cluster.start, POSTGRES)
        self._probe = self._probe or Probe(cluster)
        self._waits.append(await asyncio.to_thread(self._probe.wait))
        return "postmaster killed"

    def inspect(self, part: Part, clients: Clients) -> Iterable[str]:
        part.lists["waits (s)"] = [round(wait, 2) for wait in self._waits]
        part.figures["longest wait (s)"] = max(self._waits)
        return ()
