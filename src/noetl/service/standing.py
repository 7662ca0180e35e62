"""All that makes triggers work on a server, and the clock that drives them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from noetl.engine.events import Event
from noetl.ports import Clock, Triggers
from noetl.runtime.orchestrator import Orchestrator
from noetl.service.arranging import Arranging
from noetl.service.backfills import Backfills
from noetl.service.firing import Firing
from noetl.service.hearing import Hearing
from noetl.service.looking import Looking
from noetl.service.receiving import Receiving, Seal
from noetl.service.schedules import Schedules
from noetl.service.starting import Starting

EVERY = 1.0
"""Seconds between two looks for what is due."""


class Standing:
    """Every server looks; the database decides who starts what."""

    def __init__(
        self,
        triggers: Triggers,
        orchestrator: Orchestrator,
        starting: Starting,
        looking: Looking,
        seal: Seal,
        clock: Clock,
        new_id: Callable[[], str],
    ) -> None:
        store = orchestrator.store
        rights = orchestrator.rights
        firing = Firing(starting, rights)
        self.receiving = Receiving(triggers, firing, seal, new_id)
        self.hearing = Hearing(
            triggers, firing, store, looking, orchestrator.owners, rights
        )
        self.schedules = Schedules(triggers, firing, store, clock)
        self.backfills = Backfills(triggers, firing, store, clock, new_id)
        self.arranging = Arranging(
            triggers,
            starting,
            firing,
            self.receiving,
            self.hearing,
            looking,
            clock,
            new_id,
        )
        self._changed = asyncio.Event()
        orchestrator.watch(self._note)
        orchestrator.planner.heard = self.hearing.heard
        orchestrator.hear = self.hearing.hear

    async def tick(self) -> None:
        await self.hearing.refresh()
        await self.schedules.tick()
        await self.backfills.tick()

    async def serve(self) -> None:
        """Until cancelled; an execution that ended may make room for the next."""
        while True:
            self._changed.clear()
            await self.tick()
            try:
                async with asyncio.timeout(EVERY):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def _note(self, events: Sequence[Event]) -> None:
        if self.backfills.busy and any(
            each.name == "playbook.processed" for each in events
        ):
            self._changed.set()
