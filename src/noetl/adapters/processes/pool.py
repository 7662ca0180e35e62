"""Warm processes: kept between calls, more of them while calls wait, never too many."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Coroutine
from typing import NamedTuple

from noetl.adapters.processes.key import Key
from noetl.adapters.processes.launcher import Launcher
from noetl.adapters.processes.runner import Runner

# How often we look whether calls wait in vain. More processes are started when more
# calls wait than were served lately: for small calls one busy process beats two.
_PATIENCE = 0.01
_LATELY = 0.1
_FAIRNESS = 0.1  # a call waits no longer than this for other executions' processes
_KEPT = 60.0  # seconds without a call


class _Waiter(NamedTuple):
    key: Key
    since: float
    runner: asyncio.Future[Runner]


class Pool:
    """At most ``slots`` processes, each for one ``Key`` and one call at a time."""

    def __init__(self, slots: int, environment: dict[str, str]) -> None:
        self._slots = slots
        self._environment = environment
        self._launcher = Launcher()
        self._count: Counter[Key] = Counter()  # processes that live or are starting
        self._starting: Counter[Key] = Counter()
        self._newest: dict[Key, float] = {}
        self._served: dict[Key, tuple[float, float]] = {}  # how many lately, as of when
        self._runners: set[Runner] = set()
        self._idle: list[tuple[float, Runner]] = []  # oldest first
        self._waiting: deque[_Waiter] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._timers: dict[str, asyncio.TimerHandle] = {}

    async def acquire(self, key: Key) -> Runner:
        """A process for one call; to be given back by ``release``."""
        runner = self._take_idle(key)
        if runner is not None:
            return runner
        if not self._count[key] and self._make_room(key):
            return await self._start(key)
        loop = asyncio.get_running_loop()
        waiter = _Waiter(key, loop.time(), loop.create_future())
        self._waiting.append(waiter)
        self._arm("grow", _PATIENCE, self._grow)
        try:
            return await waiter.runner
        except asyncio.CancelledError:
            if waiter in self._waiting:
                self._waiting.remove(waiter)
            elif not waiter.runner.cancelled() and not waiter.runner.exception():
                self.release(waiter.runner.result())
            raise

    def release(self, runner: Runner) -> None:
        """Keep it for the next call; end it if it is spent or its place is needed."""
        now = asyncio.get_running_loop().time()
        self._served[runner.key] = (self._lately(runner.key, now) + 1, now)
        self._pass_on(runner, now)

    async def close(self) -> None:
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for waiter in self._waiting:
            waiter.runner.cancel()
        await self._launcher.close()
        for runner in self._runners:
            runner.close()
        self._runners.clear()
        self._idle.clear()
        self._count.clear()

    def _pass_on(self, runner: Runner, now: float) -> None:
        waiter = None if runner.spent else self._next(runner.key, now)
        if waiter is not None:
            waiter.runner.set_result(runner)
        elif runner.spent or runner.key.alone or self._is_wanted():
            self._retire(runner)
        else:
            self._idle.append((now, runner))
            self._arm("expire", _KEPT, self._expire)

    def _next(self, key: Key, now: float) -> _Waiter | None:
        """Who gets this process: a call of its key, unless others wait too long."""
        for waiter in self._waiting:
            if waiter.runner.done():
                continue  # cancelled just now
            if waiter.key == key:
                self._waiting.remove(waiter)
                return waiter
            if now - waiter.since > _FAIRNESS:
                return None
        return None

    def _is_wanted(self) -> bool:
        return any(not waiter.runner.done() for waiter in self._waiting)

    def _take_idle(self, key: Key) -> Runner | None:
        for index in range(len(self._idle) - 1, -1, -1):
            runner = self._idle[index][1]
            if runner.key == key:
                del self._idle[index]
                if not runner.spent:
                    return runner
                self._retire(runner)
        return None

    def _make_room(self, key: Key) -> bool:
        """Reserve a place for one more process; an idle one of others makes way."""
        if self._count.total() >= self._slots:
            if not self._idle:
                return False
            self._retire(self._idle.pop(0)[1])
        self._count[key] += 1
        self._starting[key] += 1
        return True

    async def _start(self, key: Key) -> Runner:
        """Start a process in the place that was reserved for it."""
        runner = Runner(key)
        try:
            await runner.start(self._launcher, self._environment)
        except BaseException:
            self._starting[key] -= 1
            self._forget(key)
            raise
        self._starting[key] -= 1
        self._runners.add(runner)
        self._newest[key] = asyncio.get_running_loop().time()
        return runner

    def _grow(self) -> None:
        """Double the processes of each key whose calls wait, if there is room."""
        now = asyncio.get_running_loop().time()
        waiting = Counter(waiter.key for waiter in self._waiting)
        for key, calls in waiting.items():
            is_new = now - self._newest.get(key, 0) < _PATIENCE or self._starting[key]
            if self._count[key] and (is_new or calls <= self._lately(key, now)):
                continue
            for _ in range(min(calls, max(self._count[key], 1))):
                if not self._make_room(key):
                    return  # whoever releases next makes room
                self._spawn(self._add(key))
        if self._waiting:
            self._arm("grow", _PATIENCE, self._grow)

    def _lately(self, key: Key, now: float) -> float:
        """How many calls were served, the older ones counting less and less."""
        served, then = self._served.get(key, (0.0, now))
        return float(served * 0.5 ** ((now - then) / _LATELY))

    async def _add(self, key: Key) -> None:
        try:
            runner = await self._start(key)
        except Exception as error:
            # Nobody else may be there to serve them: the first one hears of it.
            for waiter in self._waiting:
                if waiter.key == key and not waiter.runner.done():
                    self._waiting.remove(waiter)
                    waiter.runner.set_exception(error)
                    return
        else:
            self._pass_on(runner, asyncio.get_running_loop().time())

    def _retire(self, runner: Runner) -> None:
        self._forget(runner.key)
        self._spawn(self._end(runner))

    async def _end(self, runner: Runner) -> None:
        await runner.stop()
        runner.close()
        self._runners.discard(runner)

    def _forget(self, key: Key) -> None:
        self._count[key] -= 1
        if not self._count[key]:
            del self._count[key]
            self._newest.pop(key, None)
            self._served.pop(key, None)
            del self._starting[key]
        if self._waiting:
            self._arm("grow", 0, self._grow)

    def _expire(self) -> None:
        now = asyncio.get_running_loop().time()
        while self._idle and now - self._idle[0][0] >= _KEPT:
            self._retire(self._idle.pop(0)[1])
        if self._idle:
            self._arm("expire", self._idle[0][0] + _KEPT - now, self._expire)

    def _arm(self, name: str, delay: float, act: Callable[[], None]) -> None:
        """Have ``act`` called, once, no later than after ``delay``."""
        loop = asyncio.get_running_loop()
        armed = self._timers.get(name)
        if armed is not None:
            if armed.when() <= loop.time() + delay:
                return
            armed.cancel()

        def fire() -> None:
            del self._timers[name]
            act()

        self._timers[name] = loop.call_later(delay, fire)

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
