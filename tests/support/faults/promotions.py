"""A scenario in which the primary PostgreSQL is lost and its standby promoted."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any, ClassVar

import asyncpg
from replicas import Pair, replicated

from faults.clients import Clients, Probe
from faults.cluster import HUNG, POSTGRES, Cluster, free_port
from faults.ordeal import Scenario
from faults.parts import Part

SYNCHRONOUS = ("ALTER SYSTEM SET synchronous_standby_names = '*'",)
ALONE = ("ALTER SYSTEM RESET synchronous_standby_names",)
RELOAD = "SELECT pg_reload_conf()"
IN_STEP = """
DO $$ BEGIN
  WHILE NOT EXISTS (SELECT FROM pg_stat_replication WHERE sync_state = 'sync') LOOP
    PERFORM pg_sleep(0.05), pg_stat_clear_snapshot();
  END LOOP;
END $$
"""


class ReplicatedCluster(Cluster):
    """A cluster whose database is a primary with a synchronous standby."""

    def __init__(self, folder: Path, servers: int, workers: int) -> None:
        self._stack = ExitStack()
        self.pair: Pair | None = None
        super().__init__(folder, servers, workers, nats=True)

    def _open_services(self) -> str:
        self.pair = self._stack.enter_context(replicated())
        asyncio.run(order(self.pair, self.pair.primary, *SYNCHRONOUS, RELOAD))
        address = f"{self.pair.address}?target_session_attrs=read-write"
        self.database = self.server_database = address
        self._nats.start()
        return self._nats.address() or f"nats://127.0.0.1:{free_port()}"

    @property
    def parts(self) -> list[str]:
        return [part for part in super().parts if part != POSTGRES]

    def close(self) -> None:
        super().close()
        self._stack.close()


async def order(pair: Pair, node: Any, *statements: str) -> Any:
    """Send statements to one node, also a read-only one; return the last value."""
    connection = await asyncpg.connect(
        pair.address_of(node), server_settings={"default_transaction_read_only": "off"}
    )
    try:
        return [await connection.fetchval(each) for each in statements][-1]
    finally:
        await connection.close()


class Promotion(Scenario):
    """The primary is stopped, or killed; the standby, which has every acknowledged
    commit, becomes the primary, and the other one a fresh standby of it.

    The gap is the time from the loss until an execution is accepted again; the wait is
    the part of it after the standby says that it is promoted.
    """

    name: ClassVar[str] = "promotion"

    def __init__(self) -> None:
        self._gaps: list[float] = []
        self._waits: list[float] = []
        self._probe: Probe | None = None
        self._turn = 0

    def open(self, folder: Path) -> Cluster:
        return ReplicatedCluster(folder, 2, 3)

    async def strike(self, cluster: Cluster, dice: random.Random) -> str:
        assert isinstance(cluster, ReplicatedCluster)
        assert cluster.pair is not None
        pair = cluster.pair
        await asyncio.sleep(dice.uniform(1.0, 3.0))
        lost, heir, began = pair.primary, pair.standby, time.monotonic()
        self._turn += 1
        is_kill = self._turn % 2 == 1
        await asyncio.to_thread(lost.kill if is_kill else lost.stop)
        await order(pair, heir, *ALONE, RELOAD, "SELECT pg_promote()")
        pair.swap()
        self._probe = self._probe or Probe(cluster)
        self._waits.append(await asyncio.to_thread(self._probe.wait))
        self._gaps.append(time.monotonic() - began)
        await asyncio.to_thread(lost.copy, heir)
        lost.start()
        await asyncio.to_thread(lost.await_ready)
        await order(pair, heir, *SYNCHRONOUS, RELOAD)
        await order(pair, heir, IN_STEP)
        return "promotion after a kill" if is_kill else "promotion after a stop"

    def inspect(self, part: Part, clients: Clients) -> Iterable[str]:
        part.lists["gaps (s)"] = [round(gap, 2) for gap in self._gaps]
        part.lists["waits (s)"] = [round(wait, 2) for wait in self._waits]
        part.figures["longest gap (s)"] = max(self._gaps, default=0.0)
        part.figures["longest wait (s)"] = max(self._waits, default=0.0)
        if part.figures["longest gap (s)"] > HUNG:
            yield "no server accepted an execution after a promotion"
