"""Finds executions that are open and have nothing that could continue them (I-45)."""

from __future__ import annotations

import logging
from collections import OrderedDict
from functools import partial

from noetl.engine.decide import SETTLE, expire
from noetl.ports import Clock, Store
from noetl.runtime.executions.access import Executions
from noetl.runtime.executions.quarantine import Quarantine

log = logging.getLogger("noetl.stalls")

LOOK_EVERY_S = 10.0
"""Seconds between two looks at the store."""
MAX_LOOKED_AT = 2_000
"""Open executions of one look; the next look continues after them."""
STALLED_AFTER_S = 60.0
"""An execution without any row that stays at one event for this time is stalled."""
MAX_SUSPECTS = 10_000


class Stalled(Exception):
    """An execution that its log does not continue either."""


class StallWatch:
    """Looks for open executions without a command, a lease or a timer.

    No commit leaves one behind, so rows of it were lost: they are made again, and what
    its log leaves open is decided. If that brings none, the execution is set aside.
    ``count`` is the number of findings.
    """

    def __init__(
        self, store: Store, clock: Clock, executions: Executions, quarantine: Quarantine
    ) -> None:
        self.count = 0
        self._store = store
        self._clock = clock
        self._executions = executions
        self._quarantine = quarantine
        self._next = 0.0
        self._after = 0
        self._since: OrderedDict[tuple[str, int], float] = OrderedDict()
        self._mended: set[tuple[str, int]] = set()

    async def look(self) -> None:
        """Look at some open executions, if it is time to."""
        now = self._clock.now()
        if now < self._next:
            return
        self._next = now + LOOK_EVERY_S
        idle, self._after = await self._store.idle(
            after=self._after, limit=MAX_LOOKED_AT
        )
        for each in idle:
            if now - self._since.setdefault(each, now) >= STALLED_AFTER_S:
                self._since[each] = now
                await self._tell(*each)
        while len(self._since) > MAX_SUSPECTS:
            oldest, _ = self._since.popitem(last=False)
            self._mended.discard(oldest)

    async def _tell(self, execution_id: str, seq: int) -> None:
        self.count += 1
        said = f"it is open at event {seq}, and has no command, lease or timer"
        about = {"execution_id": execution_id, "invariant": "I-45"}
        key, doing = (execution_id, seq), "its rows are made again"
        if key in self._mended:
            doing = "its log does not continue it either"
        log.error(
            "invariant.stalled: %s: %s; %s", execution_id, said, doing, extra=about
        )
        async with self._quarantine.apart(execution_id):
            if key in self._mended:
                self._mended.discard(key)
                raise Stalled(said)
            self._mended.add(key)
            await self._executions.refresh(execution_id)
            decision = partial(expire, timer_id=SETTLE)
            await self._executions.enqueue(execution_id, decision, mends=True)
