"""The timer calls the sweep at due times: not early, and an earlier time goes first."""

from __future__ import annotations

import asyncio

from noetl.runtime.event_loop import MAX_SLEEP_S, DueTimer

HUNG = 30.0


class Clock:
    """Sleeps until the test moves it."""

    def __init__(self) -> None:
        self.time = 100.0
        self.sleeps: list[float] = []
        self.asleep = asyncio.Event()
        self._moved = asyncio.Event()

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.sleeps.append(seconds)
        self.asleep.set()
        await self._moved.wait()

    async def move(self, seconds: float) -> None:
        """Wait until the timer sleeps; then let this time pass."""
        await self.asleep.wait()
        self.asleep.clear()
        self.time += seconds
        moved, self._moved = self._moved, asyncio.Event()
        moved.set()


class Due:
    """Counts calls, and waits for the next one."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self._called = asyncio.Event()

    def of(self, clock: Clock):  # type: ignore[no-untyped-def]
        async def on_due() -> None:
            self.times.append(clock.now())
            self._called.set()

        return on_due

    async def wait(self) -> None:
        async with asyncio.timeout(HUNG):
            await self._called.wait()
        self._called.clear()


async def test_each_due_time_is_served_when_it_has_come() -> None:
    clock, due = Clock(), Due()
    timer = DueTimer(clock)
    timer.set(110.0)
    timer.set(105.0)
    serving = asyncio.create_task(timer.serve(due.of(clock)))

    await clock.move(5.0)
    await due.wait()
    await clock.move(5.0)
    await due.wait()
    serving.cancel()

    assert due.times == [105.0, 110.0]
    assert clock.sleeps[:2] == [5.0, 5.0]


async def test_an_earlier_time_shortens_the_sleep() -> None:
    clock, due = Clock(), Due()
    timer = DueTimer(clock)
    timer.set(200.0)
    serving = asyncio.create_task(timer.serve(due.of(clock)))
    await clock.asleep.wait()
    clock.asleep.clear()

    timer.set(101.0)
    await clock.move(1.0)
    await due.wait()
    serving.cancel()

    assert due.times == [101.0]
    assert clock.sleeps == [100.0, 1.0]


async def test_a_sleep_has_a_limit() -> None:
    clock, due = Clock(), Due()
    timer = DueTimer(clock)
    timer.set(100.0 + 10 * MAX_SLEEP_S)
    serving = asyncio.create_task(timer.serve(due.of(clock)))
    await clock.asleep.wait()
    serving.cancel()

    assert clock.sleeps == [MAX_SLEEP_S]
    assert due.times == []
