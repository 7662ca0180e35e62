"""A worker's line to the server: calls, and how long nobody has answered."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import IO, Protocol, TypeVar

import msgspec

from noetl.errors import Defective, LeaseLost, Refused, Unreachable
from noetl.runtime import wire
from noetl.runtime.planning import TTL

T = TypeVar("T")

FENCE = 5 / 6
"""The part of a lease's life after which a worker that heard nothing stops its tools:
before somebody else may take the lease (I-19)."""

DEFECTS = 3
"""Answers of status 500 in a row after which a call is given up: what the server cannot
do for one execution must not keep a slot for good."""

PAUSES = (0.1, 0.2, 0.5, 1.0, 2.0)


class Transport(Protocol):
    """Everything raises ``Unreachable`` or ``Refused``."""

    def home_of(self, execution_id: str) -> str:
        """The server that hears of an execution, as long as it answers: one that
        hears all of it need not read what others wrote."""
        ...

    async def call(
        self, path: str, body: bytes, *, seconds: float, server: str | None = None
    ) -> bytes: ...

    async def send(
        self, path: str, query: Mapping[str, str], source: IO[bytes]
    ) -> bytes:
        """What is in the file, in parts."""
        ...

    async def fetch(self, path: str, body: bytes, target: IO[bytes]) -> None:
        """The answer into a file, in parts."""
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
        self._has_accounts = True

    def has_accounts(self) -> bool:
        """Whether the servers have accounts, as the last answer said."""
        return self._has_accounts

    @property
    def in_danger(self) -> bool:
        """Whether leases may soon be somebody else's."""
        return self._monotonic() - self._heard > self.ttl * FENCE

    def home_of(self, execution_id: str) -> str:
        return self._transport.home_of(execution_id)

    async def call(
        self,
        path: str,
        asked: wire.Message,
        answer: type[T],
        seconds: float,
        about: str | None = None,
    ) -> T:
        """Once; to the home of the execution that it is ``about``.

        Raises ``Unreachable``, ``LeaseLost`` or ``Refused``.
        """
        body = msgspec.json.encode(asked)
        try:
            found = await self._transport.call(
                path,
                body,
                seconds=seconds,
                server=self.home_of(about) if about is not None else None,
            )
        except Refused as error:
            if error.kind == LeaseLost.kind:
                raise LeaseLost(str(error)) from None
            raise
        self._heard = self._monotonic()
        if answer is bytes:
            return found  # type: ignore[return-value]
        told = msgspec.json.decode(found, type=answer)
        if isinstance(told, wire.Orders | wire.Replies | wire.Pulse):
            self._has_accounts = told.has_accounts
        return told

    async def ask(
        self,
        path: str,
        asked: wire.Message,
        answer: type[T],
        again: Callable[[wire.Message], wire.Message] = lambda asked: asked,
        about: str | None = None,
    ) -> T:
        """Until somebody answers; ``again`` says how to ask a second time.

        Raises ``Refused``, or ``LeaseLost``, also if nobody answers in time.
        """
        for attempt in range(1_000_000):
            try:
                return await self.call(path, asked, answer, self.ttl, about)
            except Unreachable as error:
                await self._wait(attempt, error)
                asked = again(asked)
        raise AssertionError

    async def send(
        self, path: str, asked: wire.Upload, source: IO[bytes], answer: type[T]
    ) -> T:
        """Until somebody has taken all of it. Raises as ``ask``."""
        fields = {**msgspec.to_builtins(asked.lease), "worker": asked.worker}
        fields |= {"key": asked.key, "size": asked.size}
        query = {name: str(value) for name, value in fields.items()}
        for attempt in range(1_000_000):
            await asyncio.to_thread(source.seek, 0)
            try:
                found = await self._transport.send(path, query, source)
            except Unreachable as error:
                await self._wait(attempt, error)
            else:
                self._heard = self._monotonic()
                return msgspec.json.decode(found, type=answer)
        raise AssertionError

    async def fetch(self, path: str, asked: wire.Message, target: IO[bytes]) -> None:
        """Until all of it is here. Raises as ``ask``."""
        body = msgspec.json.encode(asked)
        for attempt in range(1_000_000):
            await asyncio.to_thread(target.seek, 0)
            await asyncio.to_thread(target.truncate)
            try:
                await self._transport.fetch(path, body, target)
            except Unreachable as error:
                await self._wait(attempt, error)
            else:
                self._heard = self._monotonic()
                return

    async def _wait(self, attempt: int, error: Unreachable) -> None:
        """Before the next attempt. Raises ``LeaseLost`` if there is no time left, and
        ``Refused`` if the server only answers that it is broken."""
        if isinstance(error, Defective) and attempt + 1 >= DEFECTS:
            raise Refused("internal", str(error)) from None
        if self.in_danger:
            raise LeaseLost("the server could not be reached in time") from None
        await asyncio.sleep(PAUSES[min(attempt, len(PAUSES) - 1)])
