"""Backfills: the missing slots of a range, some at a time, until they are all there."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

import msgspec

from noetl.errors import StoreError
from noetl.ports import Backfill, Clock, Store, Trigger, Triggers
from noetl.service.firing import Firing
from noetl.service.refusal import Refusal
from noetl.triggers.cron import Cron
from noetl.triggers.filling import (
    MOST,
    Flight,
    Progress,
    State,
    candidates,
    is_over,
    land,
    moment_in,
    take,
)
from noetl.triggers.slots import first, slot_name, slot_scope

log = logging.getLogger("noetl.triggers")
RACES = 20
"""How often another server may be first until something must be wrong."""


class Backfills:
    """How far each of them is, is in its row: any server goes on with it.

    ``busy`` says whether the last look found one that is open.
    """

    def __init__(
        self,
        triggers: Triggers,
        firing: Firing,
        store: Store,
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
        self, trigger: Trigger, since: str, until: str | None, at_once: int, who: str
    ) -> Backfill:
        """Raises ``Refusal`` (``backfill.range``, ``trigger.kind``)."""
        cron, now = _cron(trigger), self._clock.now()
        try:
            start = moment_in(cron, since)
            end = now if until is None else moment_in(cron, until)
        except ValueError as error:
            raise Refusal("backfill.range", str(error)) from None
        if end > now:
            message = f"the range ends in the future: {until}"
            hint = "leave the end out, then it is now; the schedule does the rest"
            raise Refusal("backfill.range", message, hint)
        total = len(first(cron, start, end, MOST + 1))
        if total == 0 or total > MOST:
            found = f"more than {MOST:,}" if total else "no"
            message = f"there are {found} slots from {since} to {until or 'now'}"
            raise Refusal("backfill.range", message, "choose another range")
        backfill = Backfill(
            backfill_id=self._new_id(),
            trigger=trigger.name,
            since=start,
            until=end,
            at_once=at_once,
            total=total,
            progress=Progress(cursor=start),
            created_at=now,
            created_by=who,
        )
        if not await self._triggers.add_backfill(backfill):
            raise no_trigger(trigger.name)
        return backfill

    async def stop(self, backfill_id: str) -> Backfill:
        """Nothing new is begun; what runs comes to its end."""
        return await self._steer(backfill_id, "running", "stopped")

    async def resume(self, backfill_id: str) -> Backfill:
        return await self._steer(backfill_id, "stopped", "running")

    async def get(self, backfill_id: str) -> Backfill:
        """Raises ``Refusal`` (``backfill.unknown``)."""
        found = await self._triggers.get_backfill(backfill_id)
        if found is None:
            raise no_backfill()
        return found

    async def list_all(self, trigger: str | None) -> Sequence[Backfill]:
        return await self._triggers.list_backfills(trigger)

    async def _steer(self, backfill_id: str, before: State, after: State) -> Backfill:
        for _ in range(RACES):
            found = await self.get(backfill_id)
            if found.state == after:
                return found
            if found.state != before:
                message = f"the backfill is {found.state}"
                raise Refusal("backfill.state", message, state=found.state)
            if await self._move(found, after, found.progress):
                return await self.get(backfill_id)
        raise StoreError("the backfill changes all the time", "store.busy")

    # -- work --------------------------------------------------------------------

    async def tick(self) -> None:
        found = await self._triggers.open_backfills()
        self.busy = bool(found)
        for backfill in found:
            try:
                await self._serve(backfill)
            except Exception:  # what is wrong with one concerns no other
                about = {"backfill_id": backfill.backfill_id}
                log.exception("a backfill fails", extra=about)

    async def _serve(self, backfill: Backfill) -> None:
        trigger = await self._triggers.get(backfill.trigger)
        if trigger is None:
            return  # it goes, and its backfills with it
        cron, before = _cron(trigger), backfill.progress
        progress = land(before, await self._endings(before.flights))
        state = backfill.state
        if state == "running":
            progress = await self._take(backfill, cron, progress)
            state = "finished" if is_over(progress, backfill.until) else state
        idle = all(flight.execution_id for flight in progress.flights)
        if (progress, state) != (before, backfill.state):
            if not await self._move(backfill, state, progress):
                return  # another server was faster
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
        for slot in slots:
            if await self._firing.known(backfill.trigger, slot_name(slot)):
                present.add(slot)
            elif (room := room - 1) < 0:
                break
        return take(
            progress, slots, frozenset(present), backfill.at_once, backfill.until
        )

    async def _start(self, backfill: Backfill, trigger: Trigger, cron: Cron) -> None:
        flights = []
        for flight in backfill.progress.flights:
            if flight.execution_id is None:
                name, scope = slot_name(flight.slot), slot_scope(cron, flight.slot)
                execution_id = await self._firing.ensure(trigger, name, {"slot": scope})
                flight = Flight(flight.slot, execution_id)
            flights.append(flight)
        progress = msgspec.structs.replace(backfill.progress, flights=tuple(flights))
        await self._move(backfill, backfill.state, progress)

    async def _endings(self, flights: Sequence[Flight]) -> dict[str, str]:
        """The status of each execution that is over, or gone."""
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


def no_backfill() -> Refusal:
    """One text for what is not there, or not theirs to see (row 64)."""
    message = "there is no such backfill"
    return Refusal("backfill.unknown", message, "see noetl backfill list")


def no_trigger(name: str) -> Refusal:
    message = f"there is no trigger '{name[:64]}'"
    return Refusal("trigger.unknown", message, "see noetl trigger list")


def _cron(trigger: Trigger) -> Cron:
    schedule = trigger.definition.schedule
    if schedule is None:
        message = f"'{trigger.name}' is no schedule: only schedules have slots"
        raise Refusal("trigger.kind", message)
    return Cron(schedule.cron, schedule.zone)
