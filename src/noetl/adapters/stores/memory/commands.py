"""Command queue of the store in memory: planned, ready, leased, ended."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from heapq import heappop, heappush, nlargest
from itertools import islice
from typing import Literal, Protocol

import msgspec

from noetl.adapters.stores.call_limits import Line, answer, lost_lease
from noetl.adapters.stores.rules import (
    GRACE,
    OPEN,
    OVER,
    Turn,
    count_by_pool,
    idle_of,
    in_turn,
    only_waits,
    rank_of,
    ready_since,
)
from noetl.engine.state import ExecutionStatus
from noetl.ports import (
    Backlog,
    CallLimit,
    Command,
    CommandRecord,
    CommandRow,
    IdlePage,
    Lease,
    Transition,
)


class _Row(msgspec.Struct):
    number: int  # position in the order of planning
    command: Command
    execution: int
    family: int
    rank: int
    state: Literal["delayed", "ready", "leased", "done"] = "ready"
    not_before: float = 0.0
    epoch: int = 0
    owner: str | None = None
    expires_at: float = 0.0
    reported: int = 0


class _Pool:
    """Ready commands of a pool by execution; entries of rows that are not ready any
    more are skipped."""

    def __init__(self) -> None:
        self.families: list[int] = []
        self.executions: dict[int, list[int]] = {}
        self.ready: dict[int, list[tuple[int, int]]] = {}
        self.turn = Turn()

    def add(self, row: _Row) -> None:
        if row.execution not in self.ready:
            self.ready[row.execution] = []
            if row.family not in self.executions:
                self.executions[row.family] = []
                insort(self.families, row.family)
            insort(self.executions[row.family], row.execution)
        heappush(self.ready[row.execution], (row.rank, row.number))

    def remove(self, family: int, execution: int) -> None:
        del self.ready[execution]
        self.executions[family].remove(execution)
        if not self.executions[family]:
            del self.executions[family]
            self.families.remove(family)

    def families_in_turn(self) -> list[int]:
        """Return all families, beginning after the one that was served last."""
        return _turned(self.families, self.turn.family)

    def executions_in_turn(self, family: int) -> list[int]:
        return _turned(self.executions[family], self.turn.after(family))


def _turned(numbers: list[int], last: int) -> list[int]:
    at = bisect_right(numbers, last)
    return numbers[at:] + numbers[:at]


class Commands:
    """Rows of commands; ``status`` returns the status of an execution by its number."""

    def __init__(self, status: Callable[[int], ExecutionStatus]) -> None:
        self._status = status
        self._rows: list[_Row] = []
        self._by_id: dict[str, _Row] = {}
        self._pools: dict[tuple[str, bool], _Pool] = {}
        self._delayed: list[tuple[float, int]] = []
        self._leased: dict[str, _Row] = {}
        self._keepers: dict[str, tuple[str, float]] = {}
        self._lines: dict[str, Line] = {}
        self._slots: dict[str, dict[str, Lease]] = {}

    def change(self, execution: int, family: int, transition: Transition) -> None:
        changes = transition.commands
        planned = {command.command_id: command for command in changes.planned}
        ranks = {}
        since = ready_since(transition) if planned else 0.0
        for index, command in enumerate(planned.values()):
            rank = rank_of(command, transition.log.after, index)
            ranks[command.command_id] = rank
            if command.command_id not in self._by_id:
                row = _Row(len(self._rows), command, execution, family, rank)
                self._rows.append(row)
                self._by_id[command.command_id] = row
                self._schedule(row, command.not_before, since)
        if changes.grant is not None:
            for lease in changes.grant.leases:
                row = self._by_id[lease.command_id]
                self._lease(row, lease, changes.grant.expires_at)
        for command_id, number in transition.reports.numbers.items():
            self._by_id[command_id].reported = number
        for command_id in changes.ended:
            if ended := self._by_id.pop(command_id, None):
                self._leased.pop(command_id, None)
                ended.state = "done"
        for command_id in changes.released:
            given = self._by_id.get(command_id)
            if given is None:
                continue
            if again := planned.get(command_id):
                if again.turn is not None:
                    given.rank = ranks[command_id]
                self._schedule(given, again.not_before, since)
            elif given.state == "leased":
                self._make_ready(given)

    def claim(
        self,
        owner: str,
        pool: str,
        slots: int,
        expires_at: float,
        now: float,
        waits: bool = False,
    ) -> list[Lease]:
        self._make_due(now)
        queue = self._pools.setdefault((pool, waits), _Pool())
        others: list[_Row] = []
        offers = in_turn(
            in_turn(
                self._take(queue, execution, owner, now, others)
                for execution in queue.executions_in_turn(family)
            )
            for family in queue.families_in_turn()
        )
        leases = []
        for row in list(islice(offers, slots)):
            queue.turn.note(row.family, row.execution)
            command = row.command
            epoch = row.epoch + 1
            lease = Lease(command.command_id, command.execution_id, owner, epoch)
            self._lease(row, lease, expires_at)
            if command.affinity is not None:
                self._keepers[command.affinity] = (owner, expires_at)
            leases.append(lease)
        for row in others:
            queue.add(row)
        return leases

    def _is_kept(self, row: _Row, owner: str, now: float) -> bool:
        """Return whether another owner keeps the commands of this affinity."""
        keeper, until = self._keepers.get(row.command.affinity or "", (owner, now))
        return keeper != owner and until > now

    def _lease(self, row: _Row, lease: Lease, expires_at: float) -> None:
        row.state, row.owner, row.expires_at = "leased", lease.owner, expires_at
        row.epoch, row.reported = lease.epoch, min(row.reported, 0) - 1
        self._leased[lease.command_id] = row

    def rows(self, command_ids: Sequence[str]) -> dict[str, CommandRow]:
        found = {name: self._by_id[name] for name in command_ids if name in self._by_id}
        return {
            name: CommandRow.read(
                row.command.execution_id,
                row.command.pool,
                row.epoch,
                row.owner,
                row.state == "leased",
                row.reported,
            )
            for name, row in found.items()
        }

    def records(self, execution_id: str) -> list[CommandRecord]:
        """Return the rows of an execution's commands."""
        return [
            CommandRecord(
                name, row.state, row.not_before, row.epoch, row.owner, row.expires_at
            )
            for name, row in self._by_id.items()
            if row.command.execution_id == execution_id and row.state != "done"
        ]

    def executions(self) -> set[int]:
        """Return the executions that have commands."""
        return {row.execution for row in self._by_id.values()}

    def is_held(self, lease: Lease) -> bool:
        row = self._leased.get(lease.command_id)
        return row is not None and lease == Lease(
            lease.command_id, row.command.execution_id, row.owner or "", row.epoch
        )

    def _is_live(self, lease: Lease) -> bool:
        """Return whether it is held, and its execution is not in quarantine."""
        if not self.is_held(lease):
            return False
        return self._status(self._leased[lease.command_id].execution) != "quarantined"

    def held(self, owner: str) -> list[Lease]:
        return [
            Lease(name, row.command.execution_id, owner, row.epoch)
            for name, row in self._leased.items()
            if row.owner == owner
        ]

    def count(self) -> dict[str, Backlog]:
        return count_by_pool((x.command.pool, x.state, 1) for x in self._rows)

    def forgive(self, leases: Sequence[Lease]) -> None:
        for lease in leases:
            if self.is_held(lease):
                row = self._leased[lease.command_id]
                row.reported = max(row.reported, 0)

    def renew(self, leases: Sequence[Lease], expires_at: float) -> list[Lease]:
        """Extend leases; return those that are lost."""
        lost = []
        for lease in leases:
            if self._is_live(lease):
                row = self._leased[lease.command_id]
                row.expires_at, affinity = expires_at, row.command.affinity
                if affinity and self._keepers.get(affinity, ("",))[0] == lease.owner:
                    self._keepers[affinity] = (lease.owner, expires_at)
            else:
                lost.append(lease)
        return lost

    def permit(self, lease: Lease, limits: Sequence[CallLimit], now: float) -> float:
        if not self._is_live(lease):
            raise lost_lease(lease)
        for holders in self._slots.values():
            holders.pop(lease.command_id, None)
        taken = {}
        for limit in limits:
            held = self._slots.get(limit.key, {})
            taken[limit.key] = sum(map(self.is_held, held.values()))
        at, changed = answer(limits, self._lines, taken, now)
        self._lines.update(changed)
        for limit in limits if not at else ():
            if not limit.interval:
                self._slots.setdefault(limit.key, {})[lease.command_id] = lease
        return at

    def expire(self, now: float) -> None:
        for row in list(self._leased.values()):
            if row.expires_at <= now - GRACE:
                self._make_ready(row)
        lapsed = [n for n, (_, at) in self._keepers.items() if at <= now - GRACE]
        for name in lapsed:
            del self._keepers[name]

    async def oldest_ready(self) -> Mapping[str, float]:
        """Return since when the oldest ready command of each pool waits."""
        found: dict[str, float] = {}
        for row in self._by_id.values():
            if row.state == "ready":
                pool = row.command.pool
                found[pool] = min(found.get(pool, row.not_before), row.not_before)
        return found

    def delayed(self, limit: int) -> list[_Row]:
        """Return delayed commands, those that are due last first."""
        rows = (row for row in self._by_id.values() if row.state == "delayed")
        return nlargest(limit, rows, key=lambda row: row.not_before)

    def _schedule(self, row: _Row, not_before: float, since: float) -> None:
        row.not_before = not_before or since
        if not_before > 0:
            self._leased.pop(row.command.command_id, None)
            row.state, row.owner = "delayed", None
            heappush(self._delayed, (not_before, row.number))
        else:
            self._make_ready(row)

    def _make_ready(self, row: _Row) -> None:
        self._leased.pop(row.command.command_id, None)
        row.state, row.owner = "ready", None
        pool = row.command.pool
        self._pools.setdefault((pool, False), _Pool()).add(row)
        if only_waits(row.rank):
            self._pools.setdefault((pool, True), _Pool()).add(row)

    def _make_due(self, now: float) -> None:
        while self._delayed and self._delayed[0][0] <= now:
            row = self._rows[heappop(self._delayed)[1]]
            if row.state == "delayed" and row.not_before <= now:
                self._make_ready(row)

    def _take(
        self,
        queue: _Pool,
        execution: int,
        owner: str,
        now: float,
        others: list[_Row],
    ) -> Iterator[_Row]:
        """Take ready commands of one execution off the queue.

        Commands that another owner keeps are skipped and added to ``others``.
        """
        waiting = queue.ready[execution]
        family = self._rows[waiting[0][1]].family
        status = self._status(execution)
        if status not in OPEN:
            if status in OVER:
                queue.remove(family, execution)
            return
        last: _Row | None = None
        while waiting:
            rank, number = heappop(waiting)
            row = self._rows[number]
            if not waiting:
                queue.remove(family, execution)
            # A row that became ready twice is in the queue twice, side by side.
            if row.rank != rank:  # it has been planned again
                continue
            if row.state == "ready" and row is not last:
                if self._is_kept(row, owner, now):
                    others.append(row)
                else:
                    yield row
            last = row


class _Log(Protocol):
    @property
    def execution_id(self) -> str: ...
    @property
    def number(self) -> int: ...
    @property
    def status(self) -> ExecutionStatus: ...
    @property
    def last_seq(self) -> int: ...


def idle_in(
    executions: Sequence[_Log],
    busy: Container[int],
    queued: Container[str],
    limit: int,
) -> IdlePage:
    """Return those that are open, not busy, and do not wait for a slot."""
    rows = [
        (x.number, x.execution_id, x.last_seq, x.number not in busy)
        for x in executions
        if x.status in OPEN
    ][:limit]
    return idle_of([(*r[:3], r[3] and r[1] not in queued) for r in rows], limit)
