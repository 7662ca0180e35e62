"""Removal of old executions by a server: one batch after another, and the archive."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import Protocol

import msgspec

from noetl.access.audit import Audit
from noetl.errors import StoreError
from noetl.ports import Clock, LogHead, Removal, Retention, TaskLogs
from noetl.ports.retention import Archive, Damaged, Refused
from noetl.service.errors import RequestRefused
from noetl.service.retention.choice import Age, Choice

log = logging.getLogger("noetl.retention")

EVERY_S = 600.0
"""Seconds between two passes of a server."""
TURN_S = 120.0
"""Seconds after which another server takes over from one that is gone."""
REST = 3.0
"""Times the length of a batch for which a pass then rests: others need the store."""
MAX_REST_S = TURN_S / 4
ENTRIES = 1_000
"""Entries of the audit that are removed at a time."""
BUDGET_S = 5.0
"""Seconds after which a request is answered, and asks to be continued."""


class Removed(msgspec.Struct):
    """The executions that one request or pass has removed, or would remove.

    ``after`` is the number of a root, at which the next request continues; None at the
    end.
    """

    executions: int = 0
    events: int = 0
    after: int | None = None

    def add(self, some: Sequence[LogHead]) -> None:
        self.executions += len(some)
        self.events += sum(each.last_seq for each in some)


class ValueSweep(Protocol):
    async def __call__(self, before: float, now: float) -> int:
        """Remove values that were stored before a time and that no log names; return
        how many."""
        ...


class Sweeper:
    """Removes executions of one store, on one server at a time.

    ``age`` is how long executions are kept; with None only requests remove any.
    ``audit_age`` is how long entries of the audit are kept; with None for ever.
    """

    def __init__(
        self,
        retention: Retention,
        task_logs: TaskLogs,
        clock: Clock,
        owner: str,
        *,
        age: float | None = None,
        archive: Archive | None = None,
        values: ValueSweep | None = None,
        audit: Audit | None = None,
        audit_age: float | None = None,
    ) -> None:
        self._retention = retention
        self._task_logs = task_logs
        self._clock = clock
        self._owner = owner
        self._age = age
        self._archive = archive
        self._values = values
        self._audit = audit
        self._audit_age = audit_age
        self._alone = asyncio.Lock()
        self._finishing: set[asyncio.Task[None]] = set()
        self._leaves_values = True  # of a process that was killed
        self.removed = 0
        self.values_removed = 0
        self.failures = 0
        self.ended_at = 0.0

    async def serve(self) -> None:
        """Remove what is old, again and again, until cancelled."""
        while self._age is not None or self._audit_age is not None:
            try:
                if self._age is not None:
                    await self.sweep(self._age)
                await self.sweep_audit()
            except StoreError as error:
                self.failures += 1
                log.warning("old executions were not removed: %s", error)
            await self._clock.sleep(EVERY_S)

    async def sweep(self, age: float) -> Removed:
        """Remove all that is old, unless another server is doing so."""
        done = Removed()
        async with self._alone:
            now = self._clock.now()
            choice = Choice(self._retention, Age(age), now)
            if not await self._begin(done):
                return done
            while some := await choice.next():
                started = time.monotonic()
                await self._remove(some, done)
                rest = (time.monotonic() - started) * REST
                await self._clock.sleep(min(rest, MAX_REST_S))
            await self._finish(done, now - age)
            await self._take_turn(ttl=0.0)
        self.ended_at = self._clock.now()
        return done

    async def close(self) -> None:
        """End what goes on after an answer; the next pass does it again."""
        for task in self._finishing:
            task.cancel()
        await asyncio.gather(*self._finishing, return_exceptions=True)

    async def sweep_audit(self) -> int:
        """Remove old entries of the audit; return how many."""
        if self._audit is None or self._audit_age is None:
            return 0
        before, removed = self._clock.now() - self._audit_age, 0
        while some := await self._audit.remove(before, ENTRIES):
            removed += some
        if removed:
            log.info("removed %d entries of the audit", removed)
        return removed

    async def clean(self, age: float, *, after: int, dry_run: bool) -> Removed:
        """Remove executions that ended more than ``age`` seconds ago, for a few
        seconds. Raises ``RequestRefused`` (``retention.busy``)."""
        done = Removed()
        now = self._clock.now()
        choice = Choice(self._retention, Age(age, at_least=True), now, after)
        until = time.monotonic() + BUDGET_S
        if dry_run:
            return await self._count(choice, done, until)
        if self._alone.locked():
            raise busy()
        async with self._alone:
            if not await self._begin(done):
                raise busy()
            while some := await choice.next():
                await self._remove(some, done)
                if time.monotonic() >= until:
                    done.after = choice.after
                    break
            else:
                self._finish_later(done, now - age)
            await self._take_turn(ttl=0.0)  # the next request may reach another server
        return done

    async def _count(self, choice: Choice, done: Removed, until: float) -> Removed:
        while page := await choice.skip():
            done.add(page)
            last = page[-2] if len(page) > 1 else None
            while last is not None:
                rest = await choice.rest_of(choice.after, last)
                done.add(rest)
                last = rest[-1] if rest else None
            if time.monotonic() >= until:
                done.after = choice.after
                break
        return done

    async def _begin(self, done: Removed) -> bool:
        """Take the turn, and do first what was planned before."""
        planned = await self._take_turn()
        if isinstance(planned, Refused):
            return False
        if planned is not None:
            try:
                await self._carry_out(planned)
                done.executions += len(planned.execution_ids)
            except Damaged:
                await self._abandon(planned)  # it is chosen again, without the damage
        return True

    async def _take_turn(self, ttl: float = TURN_S) -> Removal | Refused | None:
        return await self._retention.take_turn(
            self._owner, now=self._clock.now(), ttl=ttl
        )

    async def _remove(self, some: Sequence[Sequence[LogHead]], done: Removed) -> None:
        """Remove families; one with a damaged log stays, if it is to be archived."""
        left = [*some]
        while left:
            heads = [each for family in left for each in family]
            names = [each.summary.execution_id for each in heads]
            removal = Removal(min(names), names)
            if isinstance(await self._take_turn(), Refused):
                message = "another server removes old executions"
                raise StoreError(message, "store.conflict")
            await self._retention.plan(self._owner, removal)
            try:
                await self._carry_out(removal)
            except Damaged as damage:
                self.failures += 1
                name = damage.execution_id
                text = "an execution is not archived, and stays: %s"
                log.error(text, damage, extra={"execution_id": name})
                await self._abandon(removal)
                left = [each for each in left if name not in _names(each)]
            else:
                done.add(heads)
                return

    async def _abandon(self, removal: Removal) -> None:
        if self._archive is not None:
            await self._archive.discard(removal)
        await self._retention.plan(self._owner, None)

    async def _carry_out(self, removal: Removal) -> None:
        """Copy to the archive, then remove, then forget the plan: after a crash all of
        it is done again."""
        try:
            if self._archive is not None:
                await self._archive.keep(removal)
            await self._retention.carry_out(self._owner, removal)
        except StoreError as error:
            if error.kind not in ("store.conflict", "store.missing"):
                raise
            # A fork has begun since the choice. Another server that has the turn now
            # does the same removal, and needs the copy.
            if not isinstance(await self._take_turn(), Refused):
                await self._abandon(removal)
            raise
        await self._task_logs.remove(removal.execution_ids)
        await self._retention.plan(self._owner, None)
        self.removed += len(removal.execution_ids)

    def _finish_later(self, done: Removed, before: float) -> None:
        """Finish after the answer: to look for unnamed values may take minutes."""

        async def finish() -> None:
            try:
                async with self._alone:
                    await self._finish(done, before)
            except StoreError as error:
                self.failures += 1
                log.warning("unnamed values were not removed: %s", error)

        task = asyncio.create_task(finish())
        self._finishing.add(task)
        task.add_done_callback(self._finishing.discard)

    async def _finish(self, done: Removed, before: float) -> None:
        """Remove values that nothing names any more, and give space back."""
        values = 0
        self._leaves_values = self._leaves_values or done.executions > 0
        if self._leaves_values and self._values is not None:
            values = await self._values(before, self._clock.now())
            self.values_removed += values
        self._leaves_values = False
        while await self._retention.free_space():
            pass
        if done.executions or values:
            about = {"executions": done.executions, "events": done.events}
            text = "removed %d executions with %d events, and %d values"
            log.info(text, done.executions, done.events, values, extra=about)


def _names(heads: Sequence[LogHead]) -> set[str]:
    return {each.summary.execution_id for each in heads}


def busy() -> RequestRefused:
    message = "a server is removing old executions already"
    hint = "wait for it: the metric noetl_retention_removed_total grows meanwhile"
    return RequestRefused("retention.busy", message, hint)
