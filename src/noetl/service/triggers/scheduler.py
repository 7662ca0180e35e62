"""Triggers of a server: their services, and the loop that runs them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import Protocol

import msgspec

from noetl.dsl.times import parse_duration
from noetl.engine.events import Event
from noetl.errors import StoreError
from noetl.ports import Clock, ExecutionIndex, Trigger, Triggers
from noetl.runtime.orchestrator import Orchestrator
from noetl.service.executions.queries import ExecutionQueries
from noetl.service.executions.start import ExecutionStarter
from noetl.service.triggers.admin import TriggerAdmin
from noetl.service.triggers.backfills import Backfills
from noetl.service.triggers.fire import TriggerStarter
from noetl.service.triggers.on_finished import CompletionTriggers
from noetl.service.triggers.webhooks import Seal, WebhookReceiver
from noetl.triggers.cron import Cron
from noetl.triggers.slots import (
    ON_TIME,
    decide,
    lateness,
    left_out,
    slot_name,
    slot_scope,
)
from noetl.types import JSON

log = logging.getLogger("noetl.triggers")


class Note(Protocol):
    """Counts slots that started late, or were left out."""

    def __call__(self, *, late: int = 0, left_out: int = 0) -> None: ...


class ScheduleRunner:
    """Stores the due slots of schedules, then starts them by idempotency keys.

    If a server stops in between, another server starts the stored slots.
    """

    def __init__(
        self,
        triggers: Triggers,
        firing: TriggerStarter,
        store: ExecutionIndex,
        clock: Clock,
        note: Note,
    ) -> None:
        self._triggers = triggers
        self._firing = firing
        self._store = store
        self._clock = clock
        self._note = note

    async def tick(self) -> None:
        now = self._clock.now()
        for trigger in await self._triggers.due(now):
            try:
                await self._serve(trigger, now)
            except StoreError as error:
                log.warning("the trigger %s tries again: %s", trigger.name, error)
            except Exception:  # an error in one trigger must not stop the others
                about = {"trigger": trigger.name}
                log.exception("a trigger failed; it is retried", extra=about)

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
            late = lateness(trigger.name, schedule, slot, now)
            if late > ON_TIME:
                self._note(late=1)
            await self._alert(trigger, slot, late, execution_id=execution_id)
        last = trigger.pending[-1]
        await self._triggers.settle(trigger.name, trigger.revision, last, execution_id)

    async def _plan(self, trigger: Trigger, now: float) -> Trigger | None:
        """Store the due slots and return the trigger; None if no slot is due, or if
        another server stored them first."""
        schedule = trigger.definition.schedule
        assert schedule is not None
        if not schedule.overlap and trigger.last_slot is not None:
            slot = slot_name(trigger.last_slot)
            latest = await self._firing.latest(trigger.name, slot)
            if await self._is_running(latest or trigger.last_execution):
                return None
        due = decide(trigger.name, schedule, trigger.cursor, now)
        passed = left_out(schedule, trigger.cursor, due)
        if passed:  # before the plan: another server may alert for it, and once
            late = lateness(trigger.name, schedule, passed[-1], now)
            await self._alert(trigger, passed[-1], late, left_out=len(passed))
        if not await self._triggers.plan(trigger.name, trigger.revision, due):
            return None
        if passed:
            self._note(left_out=len(passed))
        if not due.slots:
            return None
        revision = trigger.revision + 1
        return msgspec.structs.replace(trigger, pending=due.slots, revision=revision)

    async def _alert(
        self,
        trigger: Trigger,
        slot: float,
        late: float,
        *,
        left_out: int = 0,
        execution_id: str | None = None,
    ) -> None:
        """Start the alert of a slot that is late, or the last one that is left out.

        An alert that cannot start is logged: the schedule goes on.
        """
        alert = trigger.definition.alert
        if alert is None or not (left_out or late > parse_duration(alert.after)):
            return
        about: dict[str, JSON] = {
            "slot": slot_name(slot),
            "late_seconds": round(late),
            "left_out": left_out,
            "execution_id": execution_id,
        }
        definition = msgspec.structs.replace(
            trigger.definition,
            playbook=alert.playbook,
            workload=alert.workload,
            concurrency=None,
            labels=None,
        )
        alarm = msgspec.structs.replace(trigger, definition=definition)
        try:
            key = f"alert:{slot_name(slot)}"
            await self._firing.ensure(alarm, key, {"alert": about}, admitted=True)
        except Exception:
            log.exception("an alert failed", extra={"trigger": trigger.name})

    async def _is_running(self, execution_id: str | None) -> bool:
        if execution_id is None:
            return False
        try:
            summary = await self._store.summary(execution_id)
        except StoreError as error:
            if error.kind == "store.missing":  # it was deleted by retention
                return False
            raise
        return summary.finished_at is None


CHECK_INTERVAL_S = 1.0
"""Seconds between two checks for due slots."""


class TriggerScheduler:
    """Runs the triggers on every server; the database decides which server starts a
    slot."""

    def __init__(
        self,
        triggers: Triggers,
        orchestrator: Orchestrator,
        starting: ExecutionStarter,
        looking: ExecutionQueries,
        seal: Seal,
        clock: Clock,
        new_id: Callable[[], str],
        note: Note = lambda *, late=0, left_out=0: None,
    ) -> None:
        store = orchestrator.store
        rights = orchestrator.rights
        firing = TriggerStarter(starting, rights)
        self.receiving = WebhookReceiver(triggers, firing, seal, new_id)
        self.completion = CompletionTriggers(
            triggers, firing, store, looking, orchestrator.owners, rights
        )
        self.schedules = ScheduleRunner(triggers, firing, store, clock, note)
        self.backfills = Backfills(triggers, firing, store, clock, new_id)
        self.arranging = TriggerAdmin(
            triggers,
            starting,
            firing,
            self.receiving,
            self.completion,
            looking,
            clock,
            new_id,
        )
        self._changed = asyncio.Event()
        orchestrator.watch(self._note, ends_only=True)
        orchestrator.finished.subscribe(
            self.completion.is_awaited, self.completion.fire
        )

    async def tick(self) -> None:
        await self.completion.refresh()
        await self.schedules.tick()
        await self.backfills.tick()

    async def serve(self) -> None:
        """Check for due slots until cancelled; also after each execution that ends."""
        while True:
            self._changed.clear()
            await self.tick()
            try:
                async with asyncio.timeout(CHECK_INTERVAL_S):
                    await self._changed.wait()
            except TimeoutError:
                continue

    def _note(self, events: Sequence[Event]) -> None:
        if self.backfills.busy and any(
            each.name == "playbook.processed" for each in events
        ):
            self._changed.set()
