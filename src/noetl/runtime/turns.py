"""Decisions take turns on the event loop: none of them keeps all others waiting."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from time import perf_counter, thread_time
from typing import TypeVar

from noetl.errors import NoetlError

log = logging.getLogger("noetl.server")

T = TypeVar("T")

TURN = 0.02
"""Seconds of deciding after which others are served."""
SLOW = 0.25
"""Seconds of processor time that no decision should take (I-38)."""


PATIENCE = 3
"""Decisions of one execution that may be slow; then it is set aside."""
_REMEMBERED = 1_000


class TooSlow(NoetlError):
    """The decisions of an execution keep all others waiting."""


class Watchdog:
    """Counts the slow decisions of executions (RELIABILITY 4.5, 7)."""

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}

    def note(self, execution_id: str, path: str | None, seconds: float) -> None:
        """Raises ``TooSlow`` with the last one that is put up with."""
        about = {"execution_id": execution_id, "path": path}
        log.warning("a decision took %.2f s of the processor", seconds, extra=about)
        count = self._counts.pop(execution_id, 0) + 1
        if count >= PATIENCE:
            raise TooSlow(
                f"{count} decisions on {path} took more than {SLOW:g} s each; give its "
                "steps fewer or simpler templates"
            )
        self._counts[execution_id] = count
        if len(self._counts) > _REMEMBERED:
            del self._counts[next(iter(self._counts))]


class Turns:
    """Runs pure work of the process, one after the other and first come, first served.

    ``seconds`` is what the last one took of the processor: a machine that is busy with
    something else does not count.
    """

    def __init__(self) -> None:
        self._lock = asyncio.Lock()
        self._spent = 0.0
        self.seconds = 0.0

    async def take(self, work: Callable[[], T]) -> T:
        """Call ``work``. If the last calls took long, the next caller waits until the
        loop has run its other tasks. Raises what ``work`` raises."""
        if self._spent < TURN and not self._lock.locked():
            return self._call(work)  # most calls: nothing is waited for
        async with self._lock:
            if self._spent >= TURN:
                self._spent = 0.0
                await asyncio.sleep(0)
            return self._call(work)

    def _call(self, work: Callable[[], T]) -> T:
        began, started = thread_time(), perf_counter()
        try:
            return work()
        finally:
            # Processor time is asked for again only where the clock says it matters.
            passed = perf_counter() - started
            self.seconds = passed if passed < TURN else thread_time() - began
            self._spent += self.seconds
