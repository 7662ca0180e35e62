"""Commands of the store in memory: planned, ready, leased, done."""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import Literal

import msgspec

from noetl.adapters.stores.leasing import GRACE, OPEN, OVER, deal
from noetl.engine.state import ExecutionStatus
from noetl.ports import Command, CommandRow, Lease, Transition


class _Row(msgspec.Struct):
    number: int  # the order of planning
    command: Command
    execution: int
    state: Literal["delayed", "ready", "leased", "done"] = "ready"
    not_before: float = 0.0
    epoch: int = 0
    owner: str | None = None
    expires_at: float = 0.0
    reported: int = 0


class _Pool:
    """Ready commands by execution; an entry counts only while its row is ready."""

    def __init__(self) -> None:
        self.executions: list[int] = []
        self.ready: dict[int, list[int]] = {}
        self.turn = 0

    def add(self, row: _Row) -> None:
        if row.execution not in self.ready:
            self.ready[row.execution] = []
            insort(self.executions, row.execution)
        heappush(self.ready[row.execution], row.number)

    def remove(self, execution: int) -> None:
        del self.ready[execution]
        self.executions.remove(execution)

    def in_turn(self) -> list[int]:
        """All of them, from after the last one served, once round."""
        at = bisect_right(self.executions, self.turn)
        return self.executions[at:] + self.executions[:at]


class Commands:
    """``status`` says by its number how an execution is."""

    def __init__(self, status: Callable[[int], ExecutionStatus]) -> None:
        self._status = status
        self._rows: list[_Row] = []
        self._by_id: dict[str, _Row] = {}
        self._pools: dict[str, _Pool] = {}
        self._delayed: list[tuple[float, int]] = []
        self._leased: dict[str, _Row] = {}
        self._keepers: dict[str, tuple[str, float]] = {}

    def change(self, execution: int, transition: Transition) -> None:
        planned = {command.command_id: command for command in transition.commands}
        for command in planned.values():
            if command.command_id not in self._by_id:
                row = _Row(len(self._rows), command, execution)
                self._rows.append(row)
                self._by_id[command.command_id] = row
                self._schedule(row, command.not_before)
        if transition.grant is not None:
            for lease in transition.grant.leases:
                row = self._by_id[lease.command_id]
                self._lease(row, lease, transition.grant.expires_at)
        for command_id, number in transition.reported.items():
            self._by_id[command_id].reported = number
        for command_id in transition.done:
            if ended := self._by_id.get(command_id):
                self._leased.pop(command_id, None)
                ended.state = "done"
        for command_id in transition.release:
            given = self._by_id.get(command_id)
            if given is None or given.state == "done":
                continue
            if again := planned.get(command_id):
                self._schedule(given, again.not_before)
            elif given.state == "leased":
                self._make_ready(given)

    def claim(
        self, owner: str, pool: str, slots: int, expires_at: float, now: float
    ) -> list[Lease]:
        self._make_due(now)
        queue = self._pools.setdefault(pool, _Pool())
        hands: list[list[_Row]] = []
        others: list[_Row] = []
        for execution in queue.in_turn():
            if len(hands) == slots:
                break
            hand, kept = self._take(queue, execution, slots, owner, now)
            others += kept
            if hand:
                hands.append(hand)
        leases = []
        for row in deal(hands, slots):
            queue.turn = row.execution
            command = row.command
            epoch = row.epoch + 1
            lease = Lease(command.command_id, command.execution_id, owner, epoch)
            self._lease(row, lease, expires_at)
            if command.together is not None:
                self._keepers[command.together] = (owner, expires_at)
            leases.append(lease)
        left = [row for hand in hands for row in hand if row.state == "ready"]
        for row in left + others:
            queue.add(row)
        return leases

    def _is_kept(self, row: _Row, owner: str, now: float) -> bool:
        """Whether somebody else keeps it."""
        keeper, until = self._keepers.get(row.command.together or "", (owner, now))
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

    def is_held(self, lease: Lease) -> bool:
        row = self._leased.get(lease.command_id)
        return row is not None and lease == Lease(
            lease.command_id, row.command.execution_id, row.owner or "", row.epoch
        )

    def held(self, owner: str) -> list[Lease]:
        return [
            Lease(name, row.command.execution_id, owner, row.epoch)
            for name, row in self._leased.items()
            if row.owner == owner
        ]

    def forgive(self, leases: Sequence[Lease]) -> None:
        for lease in leases:
            if self.is_held(lease):
                row = self._leased[lease.command_id]
                row.reported = max(row.reported, 0)

    def renew(self, leases: Sequence[Lease], expires_at: float) -> list[Lease]:
        """Those that were lost."""
        lost = []
        for lease in leases:
            if self.is_held(lease):
                row = self._leased[lease.command_id]
                row.expires_at, together = expires_at, row.command.together
                if together and self._keepers.get(together, ("",))[0] == lease.owner:
                    self._keepers[together] = (lease.owner, expires_at)
            else:
                lost.append(lease)
        return lost

    def expire(self, now: float) -> None:
        for row in list(self._leased.values()):
            if row.expires_at <= now - GRACE:
                self._make_ready(row)
        lapsed = [n for n, (_, at) in self._keepers.items() if at <= now - GRACE]
        for name in lapsed:
            del self._keepers[name]

    def release_all(self, execution: int) -> None:
        for row in list(self._leased.values()):
            if row.execution == execution:
                self._make_ready(row)

    def _schedule(self, row: _Row, not_before: float) -> None:
        row.not_before = not_before
        if not_before > 0:
            self._leased.pop(row.command.command_id, None)
            row.state, row.owner = "delayed", None
            heappush(self._delayed, (not_before, row.number))
        else:
            self._make_ready(row)

    def _make_ready(self, row: _Row) -> None:
        self._leased.pop(row.command.command_id, None)
        row.state, row.owner = "ready", None
        self._pools.setdefault(row.command.pool, _Pool()).add(row)

    def _make_due(self, now: float) -> None:
        while self._delayed and self._delayed[0][0] <= now:
            row = self._rows[heappop(self._delayed)[1]]
            if row.state == "delayed" and row.not_before <= now:
                self._make_ready(row)

    def _take(
        self, queue: _Pool, execution: int, slots: int, owner: str, now: float
    ) -> tuple[list[_Row], list[_Row]]:
        """Up to ``slots`` ready commands of one execution, off the queue; and those
        on the way to them that are for others."""
        status = self._status(execution)
        if status not in OPEN:
            if status in OVER:
                queue.remove(execution)
            return [], []
        waiting = queue.ready[execution]
        hand: list[_Row] = []
        kept: list[_Row] = []
        while waiting and len(hand) < slots:
            row = self._rows[heappop(waiting)]
            # A row that became ready twice is there twice, side by side.
            pile = kept if self._is_kept(row, owner, now) else hand
            if row.state == "ready" and not (pile and pile[-1] is row):
                pile.append(row)
        if not waiting:
            queue.remove(execution)
        return hand, kept
