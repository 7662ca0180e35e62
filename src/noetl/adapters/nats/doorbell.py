"""A doorbell over NATS: a server that made work ready wakes those that wait elsewhere.

Plain messages, kept by nobody: the rows in the database are what is kept, and whoever
missed a ring finds them at the next look.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Collection
from contextlib import suppress

import nats.errors
from nats.aio.client import Client
from nats.aio.msg import Msg

log = logging.getLogger("noetl.doorbell")

SUBJECT = "noetl.cmd"
PAUSE = 1
"""Seconds between two attempts to reach NATS."""
_OTHER = re.compile(r"[^A-Za-z0-9_-]")


class NatsDoorbell:
    """Rings from ``serve`` on; a NATS that is away only counts as missed rings."""

    def __init__(self, address: str) -> None:
        self._address = address
        self._client = Client()
        self._ringing: set[asyncio.Task[None]] = set()
        self._missed = 0

    def count_missed(self) -> float:
        return float(self._missed)

    def ring(self, pools: Collection[str]) -> None:
        if not self._client.is_connected:
            self._missed += 1
            return
        task = asyncio.create_task(self._publish(sorted(pools)))
        self._ringing.add(task)
        task.add_done_callback(self._ringing.discard)

    async def serve(self, heard: Callable[[], None]) -> None:
        """Until cancelled; ``heard`` is called when another server rings."""
        while True:
            try:
                await self._listen(heard)
            except (nats.errors.Error, OSError) as error:
                await _ignore(error)
            finally:
                with suppress(nats.errors.Error, OSError):
                    await self._client.close()
            await asyncio.sleep(PAUSE)
            self._client = Client()

    async def _listen(self, heard: Callable[[], None]) -> None:
        closed = asyncio.Event()

        async def hear(_: Msg) -> None:
            heard()

        async def reconnected() -> None:
            heard()  # rings may have been lost meanwhile

        async def end() -> None:
            closed.set()

        await self._client.connect(
            self._address,
            name="noetl",
            no_echo=True,
            max_reconnect_attempts=-1,
            reconnect_time_wait=PAUSE,
            connect_timeout=2,
            error_cb=_ignore,
            reconnected_cb=reconnected,
            closed_cb=end,
        )
        await self._client.subscribe(f"{SUBJECT}.*", cb=hear)
        await closed.wait()

    async def _publish(self, pools: Collection[str]) -> None:
        try:
            for pool in pools:
                await self._client.publish(f"{SUBJECT}.{_OTHER.sub('_', pool)}")
            await self._client.flush(timeout=2)
        except (nats.errors.Error, OSError, TimeoutError):
            self._missed += 1


async def _ignore(error: Exception) -> None:
    """Not with its own words: they may quote the address and its token."""
    log.debug("NATS is away: %s", type(error).__name__)
