"""Slots that are due become executions, one for each, on whichever server is first."""

from __future__ import annotations

import logging

import msgspec

from noetl.errors import StoreError
from noetl.ports import Clock, Store, Trigger, Triggers
from noetl.service.firing import Firing
from noetl.triggers.cron import Cron
from noetl.triggers.due import decide
from noetl.triggers.slots import slot_name, slot_scope

log = logging.getLogger("noetl.triggers")


class Schedules:
    """First it is stored which slots are to run, then they are started by their keys:
    whoever is stopped in between, the next one goes on."""

    def __init__(
        self, triggers: Triggers, firing: Firing, store: Store, clock: Clock
    ) -> None:
        self._triggers = triggers
        self._firing = firing
        self._store = store
        self._clock = clock

    async def tick(self) -> None:
        now = self._clock.now()
        for trigger in await self._triggers.due(now):
            try:
                await self._serve(trigger, now)
            except Exception:  # what is wrong with one concerns no other
                log.exception("a trigger fails", extra={"trigger": trigger.name})

    async def _serve(self, trigger: Trigger, now: float) -> None:
        if not trigger.pending:
            planned = await self._plan(trigger, now)
            if planned is None:
                return
            trigger = planned
        schedule = trigger.definition.schedule
        assert schedule is not None
        cron = Cron(schedule.cron, schedule.zone)
        execution_id = ""
        for slot in trigger.pending:
            scope = {"slot": slot_scope(cron, slot)}
            execution_id = await self._firing.ensure(trigger, slot_name(slot), scope)
        last = trigger.pending[-1]
        await self._triggers.settle(trigger.name, trigger.revision, last, execution_id)

    async def _plan(self, trigger: Trigger, now: float) -> Trigger | None:
        """It with the slots that are to run now; None if there are none, or another
        server decides."""
        schedule = trigger.definition.schedule
        assert schedule is not None
        if not schedule.overlap and await self._is_running(trigger.last_execution):
            return None
        due = decide(trigger.name, schedule, trigger.cursor, now)
        if not await self._triggers.plan(trigger.name, trigger.revision, due):
            return None
        if not due.slots:
            return None
        revision = trigger.revision + 1
        return msgspec.structs.replace(trigger, pending=due.slots, revision=revision)

    async def _is_running(self, execution_id: str | None) -> bool:
        if execution_id is None:
            return False
        try:
            summary = await self._store.summary(execution_id)
        except StoreError as error:
            if error.kind == "store.missing":  # it is so long over that it was removed
                return False
            raise
        return summary.finished_at is None
