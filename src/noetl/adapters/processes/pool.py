"""Warm processes: kept between calls, more of them while calls wait, never too many."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Coroutine
from typing import NamedTuple

import msgspec

from noetl.adapters.processes.key import Key
from noetl.adapters.processes.launcher import Launcher, Order
from noetl.adapters.processes.request import Reply, Request
from noetl.adapters.processes.runner import Runner, TakenBack
from noetl.adapters.processes.sandbox import sandboxed
from noetl.errors import ToolError

# How often we look whether calls wait in vain. More processes are started when those
# that are there need longer than this for what waits: two are no help for small calls.
_PATIENCE = 0.01
_NEAR = 0.0002  # seconds of work in a process that is better than to wake another
_FAIRNESS = 0.1  # a call waits no longer than this for other executions' processes
_KEPT = 60.0  # seconds without a call
_SPARES = 2
_BREATH = 0.001  # seconds: the call that took a spare goes first


class _Waiter(NamedTuple):
    key: Key
    since: float
    runner: asyncio.Future[Runner]


class Pool:
    """At most ``slots`` processes, each for one ``Key`` and one call at a time. A first
    one that executions share is not counted: it must not drive out those of their own.

    Up to ``ahead`` calls are handed to a process at once while they are short.
    """

    def __init__(self, slots: int, environment: dict[str, str], ahead: int = 1) -> None:
        self._slots = slots
        self._environment = environment
        self._ahead = ahead
        self._launcher = Launcher()
        self._runners: dict[Key, list[Runner]] = {}
        self._ending: set[Runner] = set()
        self._spares: list[Runner] = []
        self._spared = 0.0  # when one was last taken
        self._has_started = False
        self._waiting: deque[_Waiter] = deque()
        self._tasks: set[asyncio.Task[None]] = set()
        self._timers: dict[str, tuple[asyncio.Handle, float]] = {}
        self._closed = False

    async def call(self, key: Key, request: Request, seconds: float | None) -> Reply:
        """Run it once, in whichever process. Raises ``ToolError``."""
        again = False
        while True:
            runner = await self.acquire(key, again=again)
            try:
                reply = await runner.call(request, seconds)
                if reply.spent:
                    await runner.stop()  # the code left something running
            except TakenBack:
                again = True
            else:
                return reply
            finally:
                self.release(runner)

    async def acquire(self, key: Key, *, again: bool = False) -> Runner:
        """A process for one call; to be given back by ``release``."""
        if self._closed:
            message = "no process was started: the worker is stopping"
            raise ToolError("tool.exit", message, retryable=True)
        loop = asyncio.get_running_loop()
        now = loop.time()
        runner = self._find(key, now)
        if runner is not None:
            runner.places += 1
            return runner
        waiter = _Waiter(key, now, loop.create_future())
        if again:
            self._waiting.appendleft(waiter)
        else:
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
        runner.places -= 1
        if not self._closed:
            self._pass_on(runner, asyncio.get_running_loop().time())

    async def close(self) -> None:
        self._closed = True
        for timer, _ in self._timers.values():
            timer.cancel()
        self._timers.clear()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for waiter in self._waiting:
            waiter.runner.cancel()
        await self._launcher.close()
        for runner in [*self._all(), *self._ending, *self._spares]:
            runner.close()
        self._spares.clear()
        self._runners.clear()
        self._ending.clear()

    def _all(self) -> list[Runner]:
        return [runner for runners in self._runners.values() for runner in runners]

    def _find(self, key: Key, now: float) -> Runner | None:
        """One that has room, or a new one if there is none of this key."""
        for runner in [*self._runners.get(key, ())]:
            if runner.spent and not runner.places:
                self._retire(runner)  # it died while it had nothing to do
        runners = self._runners.get(key)
        if runners is None:
            return self._start(key) if key.shared or self._make_room() else None
        if self._waiting and now - self._waiting[0].since > _FAIRNESS:
            return None
        best, least = None, 0.0
        for runner in runners:
            if runner.has_room(now):
                work = runner.work
                if work < _NEAR:
                    return runner
                if best is None or work < least:
                    best, least = runner, work
        return best

    def _pass_on(self, runner: Runner, now: float) -> None:
        while self._waiting and runner.has_room(now):
            waiter = self._next(runner.key, now)
            if waiter is None:
                break
            runner.places += 1
            waiter.runner.set_result(runner)
        if runner.places:
            return
        is_wanted = self._has_place(runner) and self._is_wanted()
        if runner.spent or runner.key.alone or is_wanted:
            self._retire(runner)
        else:
            runner.idle_since = now
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

    def _make_room(self) -> bool:
        """Whether there may be one more; an idle one of others makes way."""
        counted = [runner for runner in self._all() if self._has_place(runner)]
        if len(counted) < self._slots:
            return True
        idle = [runner for runner in counted if not runner.places]
        if not idle:
            return False
        self._retire(min(idle, key=lambda runner: runner.idle_since))
        return True

    def _has_place(self, runner: Runner) -> bool:
        """Whether it is one of those that are counted."""
        return not runner.key.shared or runner is not self._runners[runner.key][0]

    def _start(self, key: Key) -> Runner:
        order = Order(
            environment=self._environment,
            folder=key.folder,
            memory=key.memory,
            disk=key.disk,
            shared=key.shared,
        )
        if key.sandbox:
            program = sandboxed(key.folder, self._environment)
            sandbox = msgspec.structs.replace(order, program=program)
            runner = self._fork(sandbox)
            runner.assign(key, None, self._ahead)
        else:
            runner = self._take_spare() or self._fork(None)
            runner.assign(key, order, self._ahead)
        self._runners.setdefault(key, []).append(runner)
        return runner

    def _fork(self, sandbox: Order | None) -> Runner:
        runner = Runner()
        try:
            runner.start(self._launcher, sandbox)
        except BaseException:
            runner.close()
            raise
        return runner

    def _take_spare(self) -> Runner | None:
        """Whoever needs a second process is likely to need more: some are kept ready,
        forked and not yet anybody's."""
        if self._has_started:
            self._arm("spare", _BREATH, self._fork_spares)
            self._arm("expire", _KEPT, self._expire)
        self._has_started = True
        self._spared = asyncio.get_running_loop().time()
        while self._spares:
            runner = self._spares.pop()
            if not runner.spent:
                return runner
            runner.close()
        return None

    def _fork_spares(self) -> None:
        while len(self._spares) < _SPARES:
            self._spares.append(self._fork(None))

    def _grow(self) -> None:
        """Double the processes of each key whose calls wait, if there is room."""
        now = asyncio.get_running_loop().time()
        waiting = Counter(waiter.key for waiter in self._waiting)
        for key, calls in waiting.items():
            runners = [each for each in self._runners.get(key, ()) if not each.spent]
            if any(now - each.started < _PATIENCE for each in runners):
                continue
            paces = [runner.pace(now) for runner in runners]
            if paces and calls * sum(paces) / len(paces) ** 2 < _PATIENCE:
                continue
            for _ in range(min(calls, max(len(runners), 1))):
                if not self._make_room():
                    break  # whoever releases next makes room
                self._add(key, now)
        if self._waiting:
            self._arm("grow", _PATIENCE, self._grow)

    def _add(self, key: Key, now: float) -> None:
        try:
            runner = self._start(key)
        except Exception as error:
            # Nobody else may be there to serve them: the first one hears of it.
            waiter = self._next(key, 0)
            if waiter is not None:
                waiter.runner.set_exception(error)
        else:
            self._pass_on(runner, now)

    def _retire(self, runner: Runner) -> None:
        runners = self._runners[runner.key]
        runners.remove(runner)
        if not runners:
            del self._runners[runner.key]
        self._finish(runner)
        if self._waiting:
            self._arm("grow", 0, self._grow)

    def _finish(self, runner: Runner) -> None:
        self._ending.add(runner)
        self._spawn(self._end(runner))

    async def _end(self, runner: Runner) -> None:
        await runner.stop()
        runner.close()
        self._ending.discard(runner)

    def _expire(self) -> None:
        now = asyncio.get_running_loop().time()
        idle = [runner for runner in self._all() if not runner.places]
        for runner in idle:
            if now - runner.idle_since >= _KEPT:
                self._retire(runner)
        if now - self._spared >= _KEPT:
            while self._spares:
                self._finish(self._spares.pop())
        if idle or self._spares:
            self._arm("expire", _KEPT, self._expire)

    def _arm(self, name: str, delay: float, act: Callable[[], None]) -> None:
        """Have ``act`` called, once, no later than after ``delay``."""
        loop = asyncio.get_running_loop()
        armed = self._timers.get(name)
        if armed is not None:
            timer, when = armed
            if when <= loop.time() + delay:
                return
            timer.cancel()

        def fire() -> None:
            del self._timers[name]
            act()

        # The time is kept here: not every loop's handles say when they are due.
        self._timers[name] = loop.call_later(delay, fire), loop.time() + delay

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
