"""Backfills: executions for the missing slots of a schedule, a few at a time."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import msgspec

from noetl.errors import StoreError
from noetl.ports import Backfill, Clock, ExecutionIndex, Trigger, Triggers
from noetl.service.errors import RequestRefused
from noetl.service.triggers.fire import TriggerStarter
from noetl.triggers.backfill import (
    MAX_SLOTS,
    Flight,
    Progress,
    State,
    candidates,
    is_over,
    land,
    moment_in,
    take,
)
from noetl.triggers.cron import Cron
from noetl.triggers.slots import first, slot_name, slot_scope

log = logging.getLogger("noetl.triggers")
MAX_CONFLICTS = 20
"""Conflicting updates by other servers after which the request fails."""


class Backfills:
    """Runs backfills. Progress is in the backfill's row, so that any server can
    continue.

    ``busy`` is True if the last check found an open backfill.
    """

    def __init__(
        self,
        triggers: Triggers,
        firing: TriggerStarter,
        store: ExecutionIndex,
        clock: Clock,
        new_id: Callable[[], str],
    ) -> None:
        self._triggers = triggers
        self._firing = firing
        self._store = store
        self._clock = clock
        self._new_id = new_id
        self.busy = False

    # -- orders ------------------------------------------------------------------

    async def begin(
        self,
        trigger: Trigger,
        since: str,
        until: str | None,
        at_once: int,
        who: str,
        *,
        failed: bool = False,
    ) -> Backfill:
        """Create a backfill; with ``failed``, slots whose latest execution failed run
        again. Raises ``RequestRefused`` (``backfill.range``,
        ``trigger.kind``)."""
        cron, now = _cron(trigger), self._clock.now()
        try:
            start = moment_in(cron, since)
            end = now if until is None else moment_in(cron, until)
        except ValueError as error:
            raise RequestRefused("backfill.range", str(error)) from None
        if end > now:
            message = f"the range ends in the future: {until}"
            hint = "omit the end to use the current time; later slots run on schedule"
            raise RequestRefused("backfill.range", message, hint)
        total = len(first(cron, start, end, MAX_SLOTS + 1))
        if total == 0 or total > MAX_SLOTS:
            found = f"more than {MAX_SLOTS:,}" if total else "no"
            message = f"there are {found} slots from {since} to {until or 'now'}"
            hint = f"choose a range with 1 to {MAX_SLOTS:,} slots"
            raise RequestRefused("backfill.range", message, hint)
        backfill = Backfill(
            backfill_id=self._new_id(),
            trigger=trigger.name,
            since=start,
            until=end,
            at_once=at_once,
            total=total,
            progress=Progress(cursor=start, failed_too=failed),
            created_at=now,
            created_by=who,
        )
        if not await self._triggers.add_backfill(backfill):
            raise no_trigger(trigger.name)
        return backfill

    async def stop(self, backfill_id: str) -> Backfill:
        """Stop the backfill: running executions finish, no new one starts."""
        return await self._steer(backfill_id, "running", "stopped")

    async def resume(self, backfill_id: str) -> Backfill:
        return await self._steer(backfill_id, "stopped", "running")

    async def get(self, backfill_id: str) -> Backfill:
        """Return the backfill. Raises ``RequestRefused`` (``backfill.unknown``)."""
        found = await self._triggers.get_backfill(backfill_id)
        if found is None:
            raise no_backfill()
        return found

    async def list_all(self, trigger: str | None) -> Sequence[Backfill]:
        return await self._triggers.list_backfills(trigger)

    async def _steer(self, backfill_id: str, before: State, after: State) -> Backfill:
        for _ in range(MAX_CONFLICTS):
            found = await self.get(backfill_id)
            if found.state == after:
                return found
            if found.state != before:
                message = f"the backfill is {found.state}"
                raise RequestRefused("backfill.state", message, state=found.state)
            if await self._move(found, after, found.progress):
                return await self.get(backfill_id)
        message = "the backfill is being changed by other servers; try again"
        raise StoreError(message, "store.busy")

    # -- work --------------------------------------------------------------------

    async def tick(self) -> None:
        found = await self._triggers.open_backfills()
        self.busy = bool(found)
        for backfill in found:
            try:
                await self._serve(backfill)
            except Exception:  # an error in one backfill must not stop the others
                about = {"backfill_id": backfill.backfill_id}
                log.exception("a backfill failed; it is retried", extra=about)

    async def _serve(self, backfill: Backfill) -> None:
        trigger = await self._triggers.get(backfill.trigger)
        if trigger is None:
            return  # the trigger is being deleted, and its backfills with it
        cron, before = _cron(trigger), backfill.progress
        progress = land(before, await self._endings(before.flights))
        state = backfill.state
        if state == "running":
            progress = await self._take(backfill, cron, progress)
            state = "finished" if is_over(progress, backfill.until) else state
        idle = all(flight.execution_id for flight in progress.flights)
        if (progress, state) != (before, backfill.state):
            if not await self._move(backfill, state, progress):
                return  # another server updated the backfill first
            backfill = msgspec.structs.replace(
                backfill, state=state, progress=progress, revision=backfill.revision + 1
            )
        if not idle:
            await self._start(backfill, trigger, cron)

    async def _take(
        self, backfill: Backfill, cron: Cron, progress: Progress
    ) -> Progress:
        room = backfill.at_once - len(progress.flights)
        slots = candidates(cron, progress, backfill.until)
        present: set[float] = set()
        again: dict[float, str] = {}
        for slot in slots:
            name = slot_name(slot)
            if await self._firing.known(backfill.trigger, name):
                failed = progress.failed_too and await self._firing.find_failed(
                    backfill.trigger, name
                )
                if not failed:
                    present.add(slot)
                    continue
                again[slot] = failed
            if (room := room - 1) < 0:
                break
        there = frozenset(present)
        until, at_once = backfill.until, backfill.at_once
        return take(progress, slots, there, at_once, until, again)

    async def _start(self, backfill: Backfill, trigger: Trigger, cron: Cron) -> None:
        flights = []
        for flight in backfill.progress.flights:
            if flight.execution_id is None:
                name, scope = slot_name(flight.slot), slot_scope(cron, flight.slot)
                execution_id = await self._firing.ensure(
                    trigger, name, {"slot": scope}, again=flight.again
                )
                flight = msgspec.structs.replace(flight, execution_id=execution_id)
            flights.append(flight)
        progress = msgspec.structs.replace(backfill.progress, flights=tuple(flights))
        await self._move(backfill, backfill.state, progress)

    async def _endings(self, flights: Sequence[Flight]) -> dict[str, str]:
        """Return the status of each execution that has finished or was deleted."""
        endings: dict[str, str] = {}
        for flight in flights:
            if flight.execution_id is None:
                continue
            try:
                summary = await self._store.summary(flight.execution_id)
            except StoreError as error:
                if error.kind != "store.missing":
                    raise
                endings[flight.execution_id] = "removed"
                continue
            if summary.finished_at is not None:
                endings[flight.execution_id] = summary.status
        return endings

    async def _move(self, backfill: Backfill, state: State, progress: Progress) -> bool:
        return await self._triggers.move(
            backfill.backfill_id, backfill.revision, state, progress
        )


def no_backfill() -> RequestRefused:
    """Return the same refusal for an absent backfill and a hidden one (row 64)."""
    message = "unknown backfill"
    hint = "noetl backfill list shows all backfills"
    return RequestRefused("backfill.unknown", message, hint)


def no_trigger(name: str) -> RequestRefused:
    message = f"unknown trigger '{name[:64]}'"
    hint = "noetl trigger list shows all triggers"
    return RequestRefused("trigger.unknown", message, hint)


def _cron(trigger: Trigger) -> Cron:
    schedule = trigger.definition.schedule
    if schedule is None:
        message = f"'{trigger.name}' is not a schedule: only schedules have slots"
        raise RequestRefused("trigger.kind", message)
    return Cron(schedule.cron, schedule.zone)
