"""A connection to NATS that is made anew whenever it ends."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from contextlib import suppress

import nats.errors
from nats.aio.client import Client

log = logging.getLogger("noetl.nats")

PAUSE = 1
"""Seconds between two attempts to reach NATS."""


class NatsLink:
    """Connected from ``serve`` on, except while NATS is away.

    ``no_echo`` keeps from us what we publish ourselves.
    """

    def __init__(self, address: str, *, no_echo: bool = False) -> None:
        self._address = address
        self._no_echo = no_echo
        self._joined = asyncio.Event()
        self.client = Client()

    async def serve(
        self,
        joined: Callable[[Client], Awaitable[None]] | None = None,
        back: Callable[[], None] | None = None,
    ) -> None:
        """Until cancelled; ``joined`` is called with each new client, ``back`` when one
        has found its NATS again."""
        while True:
            try:
                await self._stay(joined, back)
            except (nats.errors.Error, OSError) as error:
                await _ignore(error)
            finally:
                with suppress(nats.errors.Error, OSError):
                    await self.client.close()
            await asyncio.sleep(PAUSE)
            self.client = Client()

    async def wait(self, seconds: float) -> bool:
        """Whether it was there within this time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._joined.wait()
        return self._joined.is_set()

    async def _stay(
        self,
        joined: Callable[[Client], Awaitable[None]] | None,
        back: Callable[[], None] | None,
    ) -> None:
        closed = asyncio.Event()

        async def reconnected() -> None:
            if back is not None:
                back()

        async def end() -> None:
            closed.set()

        await self.client.connect(
            self._address,
            name="noetl",
            no_echo=self._no_echo,
            max_reconnect_attempts=-1,
            reconnect_time_wait=PAUSE,
            connect_timeout=2,
            error_cb=_ignore,
            reconnected_cb=reconnected,
            closed_cb=end,
        )
        if joined is not None:
            await joined(self.client)
        self._joined.set()
        await closed.wait()


async def _ignore(error: Exception) -> None:
    """Not with its own words: they may quote the address and its token."""
    log.debug("NATS is away: %s", type(error).__name__)
