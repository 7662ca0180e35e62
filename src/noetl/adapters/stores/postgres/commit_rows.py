"""A group of transitions as PostgreSQL takes it: the columns of one statement."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from noetl.adapters.stores.encoding import Encoded
from noetl.adapters.stores.leasing import OPEN, OVER, outlives
from noetl.ports import Command, Lease, Transition

RANK_BITS = 24
"""The rank of a command is the position it was planned at, shifted, and its place."""


class _Table(list[tuple[Any, ...]]):
    """Rows that are sent as columns."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self._width = width

    def columns(self) -> Sequence[Sequence[Any]]:
        return list(zip(*self, strict=True)) if self else [()] * self._width


class Group:
    """The arguments of ``commit.sql``; each transition knows its place in the group."""

    def __init__(self) -> None:
        self._transitions = _Table(6)
        self._leases = _Table(4)
        self._events = _Table(4)
        self._commands = _Table(9)
        self._changes = _Table(4)
        self._disarmed = _Table(2)
        self._timers = _Table(4)
        self._snapshots = _Table(2)
        self._offers = _Table(1)
        self._notified = _Table(5)
        self._reported = _Table(3)
        self._requests = _Table(1)
        self._together = _Table(1)

    def add(
        self,
        item: Encoded,
        hashes: Sequence[bytes],
        last_hash: bytes,
        was_open: bool = False,
    ) -> None:
        """``was_open`` says that what it offers need not be looked at again, as long
        as it is open."""
        transition, summary = item.transition, item.transition.summary
        after, count = item.after, len(item.bodies)
        self._transitions.append(
            (
                transition.execution_id,
                after,
                count,
                summary.status,
                item.summary,
                last_hash,
            )
        )
        offers = offers_of(transition)
        known = was_open or after == 0
        self._offers.append((None if known and offers == "open" else offers,))
        self._requests.append((transition.request_key,))
        place = len(self._transitions)
        for number, body in enumerate(item.bodies):
            self._events.append((place, after + number + 1, hashes[number], body))
        for lease in transition.leases:
            row = (place, lease.command_id, lease.epoch, lease.owner)
            self._leases.append(row)
        self._commands += [(place, *row) for row in planned_commands(transition)]
        self._together += [(each.together,) for each in _last(transition.commands)]
        self._changes += [(place, *row) for row in changed_commands(transition)]
        armed = {timer.timer_id for timer in transition.timers}
        self._disarmed += [(place, i) for i in transition.disarm if i not in armed]
        self._timers += [
            (place, timer.timer_id, timer.due_at, timer.kind)
            for timer in transition.timers
            if summary.status not in OVER or outlives(timer)
        ]
        self._notified += [
            (place, each.execution_id, each.timer_id, each.due_at, each.kind)
            for each in transition.notify
        ]
        self._reported += [(place, *each) for each in transition.reported.items()]
        if transition.snapshot is not None:
            self._snapshots.append((place, transition.snapshot))

    def parts(self) -> set[str]:
        """Which parts of the statement have something to do."""
        found = set()
        if self._disarmed or self._timers or self._notified or self._snapshots:
            found.add("timing")
        if self._reported:
            found.add("counting")
        if any(offers is not None for (offers,) in self._offers):
            found.add("steering")
        return found

    def arguments(self) -> list[Sequence[Any]]:
        tables = (
            self._transitions,
            self._leases,
            self._events,
            self._commands,
            self._changes,
            self._disarmed,
            self._timers,
            self._snapshots,
            self._offers,
            self._notified,
            self._reported,
            self._requests,
            self._together,
        )
        return [column for table in tables for column in table.columns()]


class _Planned(NamedTuple):
    command_id: str
    rank: int
    pool: str
    state: str
    not_before: float
    epoch: int = 0
    owner: str | None = None
    expires_at: float | None = None


def planned_commands(transition: Transition) -> Iterator[_Planned]:
    granted: dict[str, Lease] = {}
    until = None
    if transition.grant is not None:
        granted = {lease.command_id: lease for lease in transition.grant.leases}
        until = transition.grant.expires_at
    done = set(transition.done)
    for rank, command in enumerate(
        _last(transition.commands), transition.after << RANK_BITS
    ):
        name, pool, due = command.command_id, command.pool, command.not_before
        if name in done:
            yield _Planned(name, rank, pool, "", due)
        elif lease := granted.get(name):
            owner, epoch = lease.owner, lease.epoch
            yield _Planned(name, rank, pool, "leased", due, epoch, owner, until)
        else:
            yield _Planned(name, rank, pool, _state(transition, due), due)


def changed_commands(transition: Transition) -> Iterator[tuple[str, str, float | None]]:
    """What becomes of commands that were there before: one line for each."""
    planned = {command.command_id: command for command in transition.commands}
    done = set(transition.done)
    for name in done:
        yield name, "", None
    for name in dict.fromkeys(transition.release):
        if name in done:
            continue
        if command := planned.get(name):
            due = command.not_before
            yield name, _state(transition, due), due
        else:
            yield name, _state(transition, 0.0), None


def _last(commands: Sequence[Command]) -> list[Command]:
    """Of two plans for one command the second counts."""
    return list({command.command_id: command for command in commands}.values())


def _state(transition: Transition, not_before: float) -> str:
    if not_before > 0:
        return "delayed"
    return "ready" if transition.summary.status in OPEN else "held"


def offers_of(transition: Transition) -> str:
    status = transition.summary.status
    if status in OVER:
        return "over"
    return "open" if status in OPEN else "held"
