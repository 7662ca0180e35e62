"""A worker's line to the server: calls, and how long nobody has answered."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol, TypeVar

import msgspec

from noetl.errors import LeaseLost, Unreachable
from noetl.runtime import wire
from noetl.runtime.planning import TTL

T = TypeVar("T")

FENCE = 5 / 6
"""The part of a lease's life after which a worker that heard nothing stops its tools:
before somebody else may take the lease (I-19)."""

PAUSES = (0.1, 0.2, 0.5, 1.0, 2.0)


class Transport(Protocol):
    async def call(self, path: str, body: bytes, *, seconds: float) -> bytes:
        """Raises ``Unreachable`` or ``Refused``."""
        ...


class Line:
    """No clock of another machine matters here: it counts from the last answer."""

    def __init__(
        self, transport: Transport, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self.ttl = TTL
        self._transport = transport
        self._monotonic = monotonic
        self._heard = monotonic()

    @property
    def in_danger(self) -> bool:
        """Whether leases may soon be somebody else's."""
        return self._monotonic() - self._heard > self.ttl * FENCE

    async def call(
        self, path: str, asked: wire.Message, answer: type[T], seconds: float
    ) -> T:
        """Once. Raises ``Unreachable`` or ``Refused``."""
        body = msgspec.json.encode(asked)
        found = await self._transport.call(path, body, seconds=seconds)
        self._heard = self._monotonic()
        if answer is bytes:
            return found  # type: ignore[return-value]
        return msgspec.json.decode(found, type=answer)

    async def ask(
        self,
        path: str,
        asked: wire.Message,
        answer: type[T],
        again: Callable[[wire.Message], wire.Message] = lambda asked: asked,
    ) -> T:
        """Until somebody answers; ``again`` says how to ask a second time.

        Raises ``Refused``, or ``LeaseLost`` if nobody answers in time.
        """
        for attempt in range(1_000_000):
            try:
                return await self.call(path, asked, answer, self.ttl)
            except Unreachable:
                if self.in_danger:
                    message = "the server could not be reached in time"
                    raise LeaseLost(message) from None
                await asyncio.sleep(PAUSES[min(attempt, len(PAUSES) - 1)])
                asked = again(asked)
        raise AssertionError
