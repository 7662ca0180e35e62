"""Choice of the executions to remove: whole families, in batches, the oldest first."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import msgspec

from noetl.engine.retention import own_seconds, removable_at
from noetl.engine.times import seconds_of
from noetl.ports import Family, LogHead, Retention, Summary

BATCH = 500
"""Executions that are removed in one transaction, unless one family has more."""
YOUNG = 1_000
"""Families in a row that began too late to be old, after which a walk ends: they are in
the order of their beginnings, unless the clock of a server was wrong."""
EVENTS = 200_000
"""Events after which a batch ends."""


class Age(msgspec.Struct, frozen=True):
    """The seconds for which executions are kept after their end.

    A playbook's own duration replaces it; with ``at_least`` only a longer one does.
    """

    seconds: float
    at_least: bool = False

    def is_over(self, summary: Summary, now: float) -> bool:
        own = summary.playbook.get("retention")
        until = removable_at(
            summary.finished_at, own, self.seconds, at_least=self.at_least
        )
        return until <= now


class Choice:
    """Walks the families of a store once, from a root on.

    ``after`` is the number of the last root that was dealt with. What this yields is to
    be removed before the next call.
    """

    def __init__(
        self, retention: Retention, age: Age, now: float, after: int = 0
    ) -> None:
        self.after = after
        self._retention = retention
        self._age = age
        self._now = now
        self._found: deque[Family] = deque()
        self._begun_before: float | None = None
        self._large: set[int] = set()
        self._young = 0

    async def next(self) -> list[Sequence[LogHead]]:
        """Return families that may be removed together; none at the end. Of a family
        that is too large for one batch these are the newest, without its root."""
        chosen: list[Sequence[LogHead]] = []
        while (family := await self._look()) is not None:
            if not await self._may_go(family):
                self._pass(family)
                continue
            members = family.members
            if family.more:
                if not chosen:
                    self._found.clear()  # what is left of it is read again
                    return [members[:-1]]
                return chosen
            if chosen and not _fits(chosen, members):
                return chosen
            chosen.append(members)
            self._pass(family)
        return chosen

    async def skip(self) -> Sequence[LogHead]:
        """Return the members of the next family that may be removed, a page of it, for
        a count: nothing is removed before the next call."""
        while (family := await self._look()) is not None:
            self._pass(family)
            if await self._may_go(family):
                return family.members
        return ()

    async def rest_of(self, family: int, last: LogHead) -> Sequence[LogHead]:
        """Return members of a family that are older than ``last``, without its root."""
        return (await self._retention.kin(family, before=last.number)).members

    async def _look(self) -> Family | None:
        """Return the next family; None behind the last one that can be old enough."""
        limit = await self._limit()
        while self._young < YOUNG:
            if not self._found:
                self._found.extend(await self._retention.families(after=self.after))
            if not self._found:
                return None
            family = self._found[0]
            root = family.members[-1].summary
            if not root.started_at or seconds_of(root.started_at) < limit:
                self._young = 0
                return family
            self._young += 1
            self._pass(family)
        return None

    def _pass(self, family: Family) -> None:
        self.after = family.number
        if self._found:
            self._found.popleft()

    async def _limit(self) -> float:
        """Return the time before which a root began that may be removed: roots are in
        the order of their beginnings."""
        if self._begun_before is None:
            shortest = self._age.seconds
            if not self._age.at_least:
                own = map(own_seconds, await self._retention.own_durations())
                shortest = min([shortest, *(each for each in own if each is not None)])
            self._begun_before = self._now - shortest
        return self._begun_before

    async def _may_go(self, family: Family) -> bool:
        if family.held or not self._are_old(family):
            return False
        if not family.more or family.number in self._large:
            return True
        rest = family
        while rest.more:
            last = [each for each in rest.members if each.number != family.number][-1]
            rest = await self._retention.kin(family.number, before=last.number)
            if rest.held or not self._are_old(rest):
                return False
        self._large.add(family.number)
        return True

    def _are_old(self, family: Family) -> bool:
        return all(
            self._age.is_over(each.summary, self._now) for each in family.members
        )


def _fits(chosen: Sequence[Sequence[LogHead]], more: Sequence[LogHead]) -> bool:
    members = [each for family in (*chosen, more) for each in family]
    return len(members) <= BATCH and sum(each.last_seq for each in members) <= EVENTS
