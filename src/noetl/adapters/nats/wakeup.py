"""A doorbell over NATS: a server that made work ready wakes those that wait elsewhere.

Plain messages, kept by nobody: the rows in the database are what is kept, and whoever
missed a ring finds them at the next look.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Collection

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from noetl.adapters.nats.link import NatsLink

SUBJECT = "noetl.cmd"
_OTHER = re.compile(r"[^A-Za-z0-9_-]")


class NatsDoorbell:
    """Rings from ``serve`` on; a NATS that is away only counts as missed rings."""

    def __init__(self, address: str) -> None:
        self._link = NatsLink(address, no_echo=True)
        self._pools: set[str] = set()
        self._ringing: asyncio.Task[None] | None = None
        self._missed = 0

    def count_missed(self) -> float:
        return float(self._missed)

    def ring(self, pools: Collection[str]) -> None:
        if not self._link.client.is_connected:
            self._missed += 1
            return
        self._pools.update(pools)
        if self._ringing is None or self._ringing.done():
            self._ringing = asyncio.create_task(self._publish())

    async def serve(self, heard: Callable[[], None]) -> None:
        """Until cancelled; ``heard`` is called when another server rings, or may have
        rung while NATS was away."""

        async def hear(_: Msg) -> None:
            heard()

        async def listen(client: Client) -> None:
            await client.subscribe(f"{SUBJECT}.*", cb=hear)

        await self._link.serve(listen, heard)

    async def _publish(self) -> None:
        """What is rung for while one ring is on its way goes with the next one."""
        client = self._link.client
        try:
            while self._pools:
                pools, self._pools = self._pools, set()
                for pool in sorted(pools):
                    await client.publish(f"{SUBJECT}.{_OTHER.sub('_', pool)}")
                await client.flush(timeout=2)
        except (nats.errors.Error, OSError, TimeoutError):
            self._missed += 1
