"""Wake-ups over NATS: a server that made work ready notifies the other servers.

NATS does not store the messages. A server that missed one finds the work in the
database when it polls the next time.
"""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Callable, Collection

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg

from noetl.adapters.nats.connection import NatsLink
from noetl.adapters.nats.permissions import WAKEUPS

_OTHER = re.compile(r"[^A-Za-z0-9_-]")


class NatsWakeups:
    """Sends wake-ups while ``serve`` runs; counts those that could not be sent."""

    def __init__(self, address: str, tls: ssl.SSLContext | None = None) -> None:
        self._link = NatsLink(address, tls=tls, no_echo=True)
        self._pools: set[str] = set()
        self._publishing: asyncio.Task[None] | None = None
        self._missed = 0

    def count_missed(self) -> float:
        return float(self._missed)

    def wake(self, pools: Collection[str]) -> None:
        if not self._link.client.is_connected:
            self._missed += 1
            return
        self._pools.update(pools)
        if self._publishing is None or self._publishing.done():
            self._publishing = asyncio.create_task(self._publish())

    async def serve(self, wake: Callable[[], None]) -> None:
        """Listen until cancelled.

        Calls ``wake`` when another server publishes one, and after each reconnect:
        one may have been missed.
        """

        async def receive(_: Msg) -> None:
            wake()

        async def listen(client: Client) -> None:
            await client.subscribe(f"{WAKEUPS}.*", cb=receive)

        await self._link.serve(listen, wake)

    async def _publish(self) -> None:
        """Publish the rung pools; pools rung while one message is sent follow it."""
        client = self._link.client
        try:
            while self._pools:
                pools, self._pools = self._pools, set()
                for pool in sorted(pools):
                    await client.publish(f"{WAKEUPS}.{_OTHER.sub('_', pool)}")
                await client.flush(timeout=2)
        except (nats.errors.Error, OSError, TimeoutError):
            self._missed += 1
