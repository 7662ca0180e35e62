"""Event loop of servers and workers: its settings, clock, turns and due times."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from heapq import heappop, heappush
from time import perf_counter, thread_time
from typing import TypeVar

from noetl.errors import NoetlError
from noetl.ports import Clock


class SystemClock:
    now = staticmethod(time.time)
    sleep = staticmethod(asyncio.sleep)


GC_THRESHOLDS = (50_000, 20, 100)
"""Thresholds of the garbage collector: events leave few cycles, and the default
thresholds cost a tenth of the time.
"""
SWITCH_INTERVAL_S = 0.0005
"""Time after which a thread that decodes a large body lets the event loop run. With
Python's 5 ms, each system call of the loop waited that long behind such a thread, and a
small request took up to 0.35 s.
"""


def run_long(main: Coroutine[None, None, None]) -> None:
    """Run to the end, on a faster loop if one is installed."""
    gc.freeze()
    tune_interpreter()
    try:
        from uvloop import new_event_loop
    except ImportError:  # part of the extras `server` and `cluster`
        asyncio.run(main)
        return
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        runner.run(main)


def tune_interpreter() -> None:
    """Set the garbage collector and the switching of threads for a server or worker."""
    gc.enable()
    gc.set_threshold(*GC_THRESHOLDS)
    sys.setswitchinterval(SWITCH_INTERVAL_S)


async def end_tasks(tasks: Iterable[asyncio.Future[None]]) -> None:
    """Cancel the tasks and wait for their end; their results are ignored."""
    ended = list(tasks)
    for task in ended:
        task.cancel()
    for task in ended:
        with suppress(asyncio.CancelledError, Exception):
            await task


log = logging.getLogger("noetl.server")

T = TypeVar("T")

MAX_TURN_S = 0.02
"""Seconds of decisions after which other tasks run."""
SLOW_DECISION_S = 0.25
"""Seconds of processor time above which a decision is slow (I-38)."""


MAX_SLOW_DECISIONS = 3
"""Slow decisions after which an execution is quarantined."""
_REMEMBERED = 1_000


class TooSlow(NoetlError):
    """The decisions of an execution are too slow: they delay all others."""


class Watchdog:
    """Counts the slow decisions of executions (RELIABILITY 4.5, 7)."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def note(self, execution_id: str, path: str | None, seconds: float) -> None:
        """Count a slow decision. Raises ``TooSlow`` at ``MAX_SLOW_DECISIONS``."""
        about = {"execution_id": execution_id, "path": path}
        log.warning("a decision took %.2f s of the processor", seconds, extra=about)
        count = self._counts.pop(execution_id, 0) + 1
        if count >= MAX_SLOW_DECISIONS:
            raise TooSlow(
                f"{count} decisions on {path} took more than {SLOW_DECISION_S:g} s "
                "each; give its steps fewer or simpler templates"
            )
        self._counts[execution_id] = count
        if len(self._counts) > _REMEMBERED:
            del self._counts[next(iter(self._counts))]


class Turns:
    """Runs decisions of the process one at a time, in the order of their callers.

    ``seconds`` is the time of the last one: of a long one the processor time, which a
    busy machine does not prolong. The clock of the processor is read seldom, so that
    this time may contain up to ``MAX_TURN_S`` of what ran before.
    """

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._spent = 0.0
        self._marked_at = 0.0
        self._mark = 0.0
        self._elapsed: Callable[[], float] = perf_counter
        self._processor: Callable[[], float] = thread_time
        self.seconds = 0.0

    def use(self, elapsed: Callable[[], float], processor: Callable[[], float]) -> None:
        """Measure by these clocks: where time is simulated, they are part of it."""
        self._elapsed, self._processor = elapsed, processor

    @property
    def is_free(self) -> bool:
        """Return whether a decision need not wait, as most do not."""
        return self._spent < MAX_TURN_S and not self._lock.locked()

    async def take(self, work: Callable[[], T]) -> T:
        """Call ``work``. If the last calls took long, the next caller waits until the
        loop has run its other tasks. Raises what ``work`` raises.
        """
        if self.is_free:
            return self.call(work)
        async with self._lock:
            if self._spent >= MAX_TURN_S:
                self._spent = 0.0
                await asyncio.sleep(0)
            return self.call(work)

    def call(self, work: Callable[[], T]) -> T:
        """Call ``work`` at once: nothing waits for a turn. Raises what it raises."""
        elapsed = self._elapsed
        started = elapsed()
        if started - self._marked_at >= MAX_TURN_S:
            self._marked_at, self._mark = started, self._processor()
        try:
            return work()
        finally:
            self.seconds = elapsed() - started
            if self.seconds >= MAX_TURN_S:
                self.seconds = min(self.seconds, self._processor() - self._mark)
            self._spent += self.seconds


MAX_SLEEP_S = 3600.0
"""The longest sleep: the system's clock may be set forward during it."""


class DueTimer:
    """A heap of due times. A time may be served late, but not early."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._moments: list[float] = []
        self._changed = asyncio.Event()

    def set(self, moment: float) -> None:
        """Add a due time."""
        first = self._moments[0] if self._moments else None
        heappush(self._moments, moment)
        if first is None or moment < first:
            self._changed.set()

    async def serve(self, on_due: Callable[[], Awaitable[None]]) -> None:
        """Call ``on_due`` at each due time, until cancelled."""
        while True:
            self._changed.clear()
            if not self._moments:
                await self._changed.wait()
                continue
            left = self._moments[0] - self._clock.now()
            if left > 0:
                await self._sleep(min(left, MAX_SLEEP_S))
                continue
            while self._moments and self._moments[0] <= self._clock.now():
                heappop(self._moments)
            await on_due()

    async def _sleep(self, seconds: float) -> None:
        """Sleep for this time, or until an earlier due time is added."""
        sleeping = asyncio.ensure_future(self._clock.sleep(seconds))
        changed = asyncio.ensure_future(self._changed.wait())
        try:
            await asyncio.wait({sleeping, changed}, return_when="FIRST_COMPLETED")
        finally:
            sleeping.cancel()
            changed.cancel()
