"""Pool of warm processes: reused by calls, more of them while calls wait, bounded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable

from noetl.adapters.processes.launcher import PROCESSES, Launcher, Order
from noetl.adapters.processes.request import Key, Reply, Request
from noetl.adapters.processes.sandbox import SCRATCH, Sandbox, clean_variables
from noetl.adapters.processes.schedule import (
    MAX_IDLE_S,
    MAX_WAIT_S,
    Retire,
    Schedule,
    Serve,
    Step,
)
from noetl.adapters.processes.worker_process import Runner, TakenBack
from noetl.errors import ToolError
from noetl.ports.tools import Output

_SPARES = 2
_SPARE_DELAY_S = 0.001  # the call that took the last spare starts first


class _Waiter:
    """Call that waits for a process."""

    __slots__ = ("key", "runner", "since")

    def __init__(self, key: Key, since: float, runner: asyncio.Future[Runner]) -> None:
        self.key = key
        self.since = since
        self.runner = runner

    def is_waiting(self) -> bool:
        return not self.runner.done()


class Pool:
    """Performs the steps of a ``Schedule``: at most ``slots`` processes, each for one
    ``Key`` and one call at a time.

    Up to ``ahead`` short calls are queued in a process. ``filtered`` restricts the
    system calls of processes without a sandbox.
    """

    def __init__(
        self,
        slots: int,
        environment: dict[str, str],
        ahead: int = 1,
        *,
        filtered: bool = True,
    ) -> None:
        self._environment = environment
        self._filtered = filtered
        self._ahead = ahead
        self._launcher = Launcher()
        self._schedule: Schedule[_Waiter, Runner] = Schedule(slots)
        self._ending: set[Runner] = set()
        self._spares: list[Runner] = []
        self._spared = 0.0  # when a spare was last taken
        self._has_started = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._timers: dict[str, tuple[asyncio.Handle, float]] = {}
        self._closed = False

    async def call(
        self,
        key: Key,
        request: Request,
        seconds: float | None,
        output: Output | None = None,
    ) -> Reply:
        """Run a request once, in any process of the key. Raises ``ToolError``.

        What it prints is added to ``output``.
        """
        since = asyncio.get_running_loop().time()
        while True:
            runner = await self.acquire(key, since)
            try:
                reply = await runner.call(request, seconds, output)
                if reply.spent:
                    await runner.stop()  # the code left something running
            except TakenBack:
                continue
            else:
                return reply
            finally:
                self.release(runner)

    async def acquire(self, key: Key, since: float | None = None) -> Runner:
        """Wait for a process for one call; the caller must ``release`` it.

        ``since`` is the time from which the call has waited.
        """
        if self._closed:
            message = "no process was started: the worker is stopping"
            raise ToolError("tool.exit", message, retryable=True)
        loop = asyncio.get_running_loop()
        now = loop.time()
        runner = self._schedule.find(key, now)
        if runner is not None:
            return runner
        since = now if since is None else since
        waiter = _Waiter(key, since, loop.create_future())
        self._perform(self._schedule.wait(waiter, now))
        self._arm("tick", MAX_WAIT_S, self._tick)
        try:
            return await waiter.runner
        except asyncio.CancelledError:
            if waiter.runner.cancelled():
                self._perform(self._schedule.leave(waiter, loop.time()))
            elif not waiter.runner.exception():
                self.release(waiter.runner.result())
            raise

    def release(self, runner: Runner) -> None:
        """Keep a process for the next call; end it if it is spent or not needed."""
        now = asyncio.get_running_loop().time()
        steps = self._schedule.release(runner, now)
        if not self._closed:
            self._perform(steps)
            if not runner.places:
                self._arm("expire", MAX_IDLE_S, self._expire)

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
        for runner in [*self._schedule.processes, *self._ending, *self._spares]:
            runner.close()
        self._spares.clear()
        self._ending.clear()

    @property
    def _waiting(self) -> list[_Waiter]:
        return self._schedule.waiting

    def _perform(self, steps: Iterable[Step[_Waiter, Runner]]) -> None:
        if self._closed:
            return
        for step in steps:
            if isinstance(step, Serve):
                step.ticket.runner.set_result(step.process)
            elif isinstance(step, Retire):
                self._finish(step.process)
            else:
                self._add(step.key)

    def _add(self, key: Key) -> None:
        try:
            self._schedule.add(self._start(key))
        except Exception as error:
            waiter = self._schedule.first(key)
            if waiter is not None:
                waiter.runner.set_exception(error)

    def _tick(self) -> None:
        self._perform(self._schedule.tick(asyncio.get_running_loop().time()))
        if self._waiting:
            self._arm("tick", MAX_WAIT_S, self._tick)

    def _start(self, key: Key) -> Runner:
        sandbox = key.sandbox
        environment, folder = self._environment, key.folder
        if sandbox is not None:
            environment = clean_variables(environment)
            if folder is None or not sandbox.shows(folder):
                folder = SCRATCH
        order = Order(
            environment=environment,
            folder=folder,
            memory=key.memory,
            disk=key.disk,
            shared=key.shared,
            filtered=self._filtered and sandbox is None,
            processes=PROCESSES if sandbox is None else sandbox.processes,
        )
        runner = self._take_spare(sandbox) or self._fork(sandbox)
        runner.assign(key, order, self._ahead)
        return runner

    def _fork(self, sandbox: Sandbox | None) -> Runner:
        runner = Runner()
        try:
            runner.start(self._launcher, sandbox)
        except BaseException:
            runner.close()
            raise
        return runner

    def _take_spare(self, sandbox: Sandbox | None) -> Runner | None:
        """Take a spare: a started process without a key, in the same sandbox.

        Spares are started from the second process on, since more are likely to be
        needed then.
        """
        if self._has_started:
            self._arm("spare", _SPARE_DELAY_S, lambda: self._fork_spares(sandbox))
            self._arm("expire", MAX_IDLE_S, self._expire)
        self._has_started = True
        self._spared = asyncio.get_running_loop().time()
        for runner in list(self._spares):
            if runner.spent or runner.sandbox != sandbox:
                self._spares.remove(runner)
                self._finish(runner)
        return self._spares.pop() if self._spares else None

    def _fork_spares(self, sandbox: Sandbox | None) -> None:
        while len(self._spares) < _SPARES:
            self._spares.append(self._fork(sandbox))

    def _finish(self, runner: Runner) -> None:
        self._ending.add(runner)
        self._spawn(self._end(runner))

    async def _end(self, runner: Runner) -> None:
        await runner.stop()
        runner.close()
        self._ending.discard(runner)

    def _expire(self) -> None:
        now = asyncio.get_running_loop().time()
        self._perform(self._schedule.expire(now))
        if now - self._spared >= MAX_IDLE_S:
            while self._spares:
                self._finish(self._spares.pop())
        if self._schedule.processes or self._spares:
            self._arm("expire", MAX_IDLE_S, self._expire)

    def _arm(self, name: str, delay: float, act: Callable[[], None]) -> None:
        """Call ``act`` once, after ``delay`` seconds or with an earlier timer."""
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

        # The due time is stored here: the handles of some loops do not have it.
        self._timers[name] = loop.call_later(delay, fire), loop.time() + delay

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
