"""The network of a simulation: calls from workers and clients to servers.

A call can be lost, come late, come twice, or lose its answer. A part of the network
can be cut off for a while.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from noetl.errors import Defective, Refused, Unreachable

from .loop import Process, SimLoop
from .plan import TTL, Rates

ANSWER_S = TTL / 8
"""The longest time that an answer is under way. A worker counts the time of a lease
from the answer, so the margin of its fence (a sixth of the lease) must cover this."""

IsGone = Callable[[], bool]
Work = Callable[[Any, IsGone], Awaitable[Any]]
"""What a call does at its server; it learns whether the caller still waits."""


class Host(Protocol):
    """A server as the network sees it."""

    process: Process
    address: str


class Call:
    """A call under way. ``is_open`` until its caller has an answer, or gives up."""

    def __init__(self, sender: Process, future: asyncio.Future[Any]) -> None:
        self.sender = sender
        self.future = future
        self.is_open = True


class Network:
    """Carries calls. ``hosts`` are the running servers by their addresses."""

    def __init__(self, loop: SimLoop, seed: str, rates: Rates) -> None:
        self._loop = loop
        self._random = random.Random(f"{seed}:network")
        self._rates = rates
        self._context = loop.world.context
        self.hosts: dict[str, Host] = {}
        self.cut: dict[tuple[str, str], float] = {}
        self.happened: dict[str, int] = {}
        self.defects: list[str] = []
        self._open: dict[str, dict[Call, None]] = {}

    def count(self, what: str) -> None:
        self.happened[what] = self.happened.get(what, 0) + 1

    async def call(
        self, sender: Process, address: str, work: Work, *, seconds: float
    ) -> Any:
        """Call a server. Raises ``Unreachable``, or what the server raises."""
        call = Call(sender, self._loop.create_future())
        self._loop.world.spawn(self._carry(call, address, work))
        try:
            async with asyncio.timeout(seconds):
                return await call.future
        except TimeoutError:
            raise Unreachable("no answer in time") from None
        finally:
            call.is_open = False

    def reset(self, address: str) -> None:
        """Break the connections to a server whose process is gone."""
        for call in self._open.pop(address, {}):
            if self._random.random() < 0.8:  # otherwise the caller waits in vain
                after = self._random.random() * 0.05
                self._loop.call_later(
                    after, _fail, call, Unreachable("reset"), context=self._context
                )

    def is_cut(self, one: str, other: str) -> bool:
        now = self._loop.time()
        return (
            self.cut.get((one, other), 0.0) > now or self.cut.get((one, "*"), 0.0) > now
        )

    async def _carry(self, call: Call, address: str, work: Work) -> None:
        draw, rates = self._random.random, self._rates
        await asyncio.sleep(self._latency())
        sender = call.sender.name
        if draw() < rates.lost or self.is_cut(sender, address):
            self.count("request lost")
            await self._give_up(call)
            return
        if draw() < rates.repeated:
            self.count("request repeated")
            self._loop.world.spawn(self._repeat(call, address, work))
        await self._deliver(call, address, work)

    async def _repeat(self, call: Call, address: str, work: Work) -> None:
        """Deliver a copy of a request: soon, or long after it was answered."""
        draw = self._random.random
        await asyncio.sleep(draw() * draw() * 8.0)
        again = Call(call.sender, self._loop.create_future())
        await self._deliver(again, address, work)

    async def _deliver(self, call: Call, address: str, work: Work) -> None:
        draw, rates = self._random.random, self._rates
        host = self.hosts.get(address)
        if host is None or not host.process.alive:
            _fail(call, Unreachable("connection refused"))
            return
        notices = draw() < 0.8  # that the caller has hung up
        is_open = self._open.setdefault(address, {})
        is_open[call] = None

        def is_gone() -> bool:
            return notices and not (call.is_open and call.sender.alive)

        async def handle() -> None:
            answer: Any = None
            try:
                answer = await work(host, is_gone)
            except (Refused, Unreachable) as error:
                answer = error
            except Exception as error:  # the routes answer 500
                self.defects.append(f"{type(error).__name__}: {error}")
                answer = Defective(str(error))
            self._loop.world.spawn(reply(answer))

        async def reply(answer: Any) -> None:
            await asyncio.sleep(min(self._latency(), ANSWER_S))
            is_open.pop(call, None)
            if draw() < rates.unheard or self.is_cut(call.sender.name, address):
                self.count("answer lost")
                await self._give_up(call)
                return
            if isinstance(answer, Exception):
                _fail(call, answer)
            elif not call.future.done():
                call.future.set_result(answer)

        host.process.spawn(handle())

    async def _give_up(self, call: Call) -> None:
        """Break the connection of a lost message, soon or late, or never."""
        draw = self._random.random
        if draw() < 0.6:
            await asyncio.sleep(draw() * draw() * 6.0)
            _fail(call, Unreachable("lost"))

    def _latency(self) -> float:
        draw = self._random.random
        if draw() < self._rates.late:
            self.count("late")
            return draw() * draw() * 5.0
        return 0.0002 + draw() * draw() * 0.01


def _fail(call: Call, error: Exception) -> None:
    if not call.future.done():
        call.future.set_exception(error)
        call.future.exception()  # nobody may be left to look at it
