"""An event loop on virtual time: one thread, no sockets, every choice from a seed.

Each callback belongs to a process of the simulation. The callbacks of one process run
in the order of asyncio; which process runs next is drawn from the seed. A process can
be frozen, and it can be killed at any callback: then nothing of it runs again.
"""

from __future__ import annotations

import asyncio
import random
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine
from contextlib import suppress
from contextvars import Context, ContextVar, copy_context
from hashlib import blake2b
from heapq import heappop, heappush
from typing import Any
from warnings import catch_warnings, simplefilter

BURST = 6
"""The most callbacks that one process runs before another may be chosen."""
_NEVER = 1 << 60


class Process:
    """A simulated operating-system process: the owner of callbacks and tasks."""

    def __init__(self, loop: SimLoop, name: str, number: int) -> None:
        self.name = name
        self.number = number
        self.alive = True
        self.frozen = False
        self.thawed_at = float("-inf")
        self.is_awake = False
        self.fuse = _NEVER
        """Callbacks that it still runs before it is killed."""
        self.on_death: Callable[[], None] = lambda: None
        self.ready: deque[Callback] = deque()
        self.context: Context = copy_context()
        self.context.run(_PROCESS.set, self)
        self._loop = loop

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        """Run a coroutine as a task of this process."""
        return self._loop.create_task(work, context=self.context)

    def kill(self) -> None:
        """End it at once: no handler, no ``finally`` runs any more."""
        if self.alive:
            self.alive = False
            self.ready.clear()
            self._loop.forget(self)
            self.on_death()

    def freeze(self, seconds: float) -> None:
        """Hold its callbacks for this time, or longer if it is frozen already."""
        self.thawed_at = max(self.thawed_at, self._loop.time() + seconds)
        self.frozen = True
        self._loop.forget(self)
        world = self._loop.world.context
        self._loop.call_at(self.thawed_at, self._thaw, context=world)

    def _thaw(self) -> None:
        if self.frozen and self.alive and self._loop.time() >= self.thawed_at:
            self.frozen = False
            if self.ready:
                self._loop.awaken(self)


_PROCESS: ContextVar[Process] = ContextVar("process")


class Callback:
    """A handle as asyncio knows it; with ``when`` it is that of a timer."""

    __slots__ = ("_when", "args", "cancelled_", "context", "process", "work")

    def __init__(
        self,
        work: Callable[..., object],
        args: tuple[Any, ...],
        context: Context,
        process: Process,
        when: float = 0.0,
    ) -> None:
        self.work = work
        self.args = args
        self.context = context
        self.process = process
        self.cancelled_ = False
        self._when = when

    def cancel(self) -> None:
        self.cancelled_ = True

    def cancelled(self) -> bool:
        return self.cancelled_

    def when(self) -> float:
        return self._when


class SimLoop(asyncio.AbstractEventLoop):
    """Runs callbacks in an order that the seed alone decides."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(f"{seed}:order").random
        self._now = 0.0
        self._timers: list[tuple[float, int, Callback]] = []
        self._count = 0
        self._awake: list[Process] = []
        self._tasks: list[asyncio.Task[Any]] = []
        self._closed = False
        self._trace = bytearray()
        self._processes = 0
        self.steps = 0
        self.complaints: list[str] = []
        self.world = self.process("world")
        self.current = self.world

    # -- processes -----------------------------------------------------------------

    def process(self, name: str) -> Process:
        self._processes += 1
        return Process(self, name, self._processes)

    def forget(self, process: Process) -> None:
        if process.is_awake:
            process.is_awake = False
            self._awake.remove(process)

    def awaken(self, process: Process) -> None:
        if not process.is_awake:
            process.is_awake = True
            self._awake.append(process)

    # -- what asyncio asks of a loop -----------------------------------------------

    def time(self) -> float:
        return self._now

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return not self._closed

    def is_closed(self) -> bool:
        return self._closed

    def call_soon(  # type: ignore[override]
        self,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> Callback:
        if context is None:
            context = copy_context()
        process = context.get(_PROCESS, self.world)
        assert process is not None
        made = Callback(callback, args, context, process)
        self._put(made)
        return made

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_later(  # type: ignore[override]
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> Callback:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: Context | None = None,
    ) -> Callback:
        if context is None:
            context = copy_context()
        process = context.get(_PROCESS, self.world)
        assert process is not None
        made = Callback(callback, args, context, process, when)
        if process.alive and not self._closed:
            self._count += 1
            heappush(self._timers, (when, self._count, made))
        return made

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(  # type: ignore[override]
        self,
        coro: Coroutine[Any, Any, Any],
        *,
        name: object = None,
        context: Context | None = None,
    ) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.Task(
            coro, loop=self, name="task", context=context
        )
        self._tasks.append(task)
        return task

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not self._closed:
            error = context.get("exception")
            self.complaints.append(f"{context.get('message')}: {error!r}")

    # -- the run -------------------------------------------------------------------

    def run(self, is_over: Callable[[], bool], until: float) -> bool:
        """Run until ``is_over``; return whether it was so before the time ``until``."""
        before = events._get_running_loop()
        events._set_running_loop(self)
        try:
            while not is_over():
                if self._awake:
                    self._burst()
                elif not self._advance(until):
                    return False
            return True
        finally:
            events._set_running_loop(before)

    def _put(self, made: Callback) -> None:
        process = made.process
        if process.alive and not self._closed:
            process.ready.append(made)
            if not process.is_awake and not process.frozen:
                process.is_awake = True
                self._awake.append(process)

    def _advance(self, until: float) -> bool:
        timers = self._timers
        while timers and (timers[0][2].cancelled_ or not timers[0][2].process.alive):
            heappop(timers)
        if not timers or timers[0][0] > until:
            return False
        self._now = max(self._now, timers[0][0])
        while timers and timers[0][0] <= self._now:
            made = heappop(timers)[2]
            if not made.cancelled_:
                self._put(made)
        return True

    def _burst(self) -> None:
        """Let one process run some of its callbacks."""
        awake, draw = self._awake, self._random
        place = int(draw() * len(awake)) if len(awake) > 1 else 0
        process = awake[place]
        ready = process.ready
        left = 1 + int(draw() * BURST)
        self.current = process
        self._trace += b"%d:%d " % (process.number, left)
        while left and ready and process.alive and not process.frozen:
            made = ready.popleft()
            left -= 1
            if made.cancelled_:
                continue
            self.steps += 1
            process.fuse -= 1
            if process.fuse < 0:
                process.fuse = _NEVER
                process.kill()
                break
            try:
                made.context.run(made.work, *made.args)
            except Exception as error:
                self.complaints.append(f"callback of {process.name}: {error!r}")
        self.current = self.world
        if not ready:
            self.forget(process)
        if len(self._trace) > 60_000:
            self._fold()

    def note(self, text: bytes) -> None:
        """Make something that happened part of the trace."""
        self._trace += text

    def _fold(self) -> None:
        self._trace = bytearray(blake2b(self._trace, digest_size=16).digest())

    def trace(self) -> str:
        """Return the hash of everything that has run, in its order."""
        self._trace += b"%r" % self._now
        return blake2b(self._trace, digest_size=16).hexdigest()

    def close(self) -> None:
        """Drop what is left, without a word from the tasks that never ended."""
        self._closed = True
        before = events._get_running_loop()
        events._set_running_loop(self)
        try:
            with catch_warnings():
                simplefilter("ignore", RuntimeWarning)
                self._end_tasks()
        finally:
            events._set_running_loop(before)
        self._tasks.clear()
        self._timers.clear()
        self._awake.clear()

    def _end_tasks(self) -> None:
        for task in self._tasks:
            if task.done():
                if not task.cancelled():
                    task.exception()  # nobody else asks for it
                continue
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            work = task.get_coro()
            with suppress(Exception):  # it may await again while it is closed
                work.close()  # type: ignore[union-attr]
