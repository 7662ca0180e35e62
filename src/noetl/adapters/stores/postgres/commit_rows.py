"""Rows of a group commit, as columns: the arguments of its one statement."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple

from noetl.adapters.stores.batches import Row
from noetl.adapters.stores.encoding import Encoded
from noetl.adapters.stores.rules import OPEN, OVER, outlives, rank_of, ready_since
from noetl.ports import Command, Lease, Transition


class _Table(list[tuple[Any, ...]]):
    """Rows that are sent as arrays, one for each column."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self._width = width

    def columns(self) -> Sequence[Sequence[Any]]:
        return list(zip(*self, strict=True)) if self else [()] * self._width


class Group:
    """The arguments of ``commit.sql``; rows carry the number of their transition."""

    def __init__(self) -> None:
        self._transitions = _Table(6)
        self._leases = _Table(4)
        self._batches = _Table(4)
        self._packings = _Table(2)
        self._commands = _Table(9)
        self._changes = _Table(4)
        self._ranks = _Table(1)
        self._disarmed = _Table(2)
        self._timers = _Table(4)
        self._snapshots = _Table(2)
        self._offers = _Table(1)
        self._notified = _Table(5)
        self._reported = _Table(3)
        self._requests = _Table(1)
        self._affinities = _Table(1)
        self._parents = _Table(1)

    def add(
        self,
        item: Encoded,
        rows: Sequence[Row],
        last_hash: bytes,
        was_open: bool = False,
    ) -> None:
        """Add a transition.

        ``was_open`` says that the execution offered its commands before: as long as it
        stays open, none of them need to be looked at.
        """
        transition, summary = item.transition, item.transition.summary
        after, count = item.after, item.last_seq - item.after
        self._transitions.append(
            (
                transition.execution_id,
                after,
                count,
                summary.status,
                item.summary.text,
                last_hash,
            )
        )
        offers = offers_of(transition)
        known = was_open or after == 0
        self._offers.append((None if known and offers == "open" else offers,))
        self._requests.append((transition.request_key,))
        self._parents.append((summary.parent_id if after == 0 else None,))
        number = len(self._transitions)
        for each in rows:
            self._batches.append((number, each.last_seq, each.hash, each.body))
            self._packings.append((each.events, each.dictionary))
        for lease in transition.reports.leases:
            row = (number, lease.command_id, lease.epoch, lease.owner)
            self._leases.append(row)
        self._commands += [(number, *row) for row in planned_commands(transition)]
        self._affinities += [
            (each.affinity,)
            for each in _last(transition.commands.planned)
            if each.command_id not in transition.commands.ended
        ]
        for *change, rank in changed_commands(transition):
            self._changes.append((number, *change))
            self._ranks.append((rank,))
        timers = transition.timers
        armed = {timer.timer_id for timer in timers.armed}
        self._disarmed += [(number, i) for i in timers.disarmed if i not in armed]
        self._timers += [
            (number, timer.timer_id, timer.due_at, timer.kind)
            for timer in timers.armed
            if summary.status not in OVER or outlives(timer)
        ]
        self._notified += [
            (number, each.execution_id, each.timer_id, each.due_at, each.kind)
            for each in timers.relatives
        ]
        numbers = transition.reports.numbers
        self._reported += [(number, *each) for each in numbers.items()]
        if transition.log.snapshot is not None:
            self._snapshots.append((number, transition.log.snapshot))

    def parts(self) -> set[str]:
        """Return the optional parts of the statement that this group needs."""
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
            self._batches,
            self._commands,
            self._changes,
            self._disarmed,
            self._timers,
            self._snapshots,
            self._offers,
            self._notified,
            self._reported,
            self._requests,
            self._affinities,
            self._parents,
            self._ranks,
            self._packings,
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
    commands = transition.commands
    if commands.grant is not None:
        granted = {lease.command_id: lease for lease in commands.grant.leases}
        until = commands.grant.expires_at
    ended = set(commands.ended)
    since = ready_since(transition) if commands.planned else 0.0
    for index, command in enumerate(_last(commands.planned)):
        rank = rank_of(command, transition.log.after, index)
        name, pool = command.command_id, command.pool
        if name in ended:
            continue
        state = _state(transition, command.not_before)
        due = command.not_before or since
        if lease := granted.get(name):
            owner, epoch = lease.owner, lease.epoch
            yield _Planned(name, rank, pool, "leased", due, epoch, owner, until)
        else:
            yield _Planned(name, rank, pool, state, due)


def changed_commands(
    transition: Transition,
) -> Iterator[tuple[str, str, float | None, int | None]]:
    """Iterate over changes of earlier commands: id, new state, new due time and
    rank."""
    commands = transition.commands
    planned = {
        command.command_id: (command, rank_of(command, transition.log.after, index))
        for index, command in enumerate(_last(commands.planned))
    }
    ended = set(commands.ended)
    since = ready_since(transition) if commands.released else 0.0
    for name in ended:
        yield name, "", None, None
    for name in dict.fromkeys(commands.released):
        if name in ended:
            continue
        if again := planned.get(name):
            command, rank = again
            due = command.not_before
            place = None if command.turn is None else rank
            yield name, _state(transition, due), due or since, place
        else:
            yield name, _state(transition, 0.0), None, None


def _last(commands: Sequence[Command]) -> list[Command]:
    """Drop all but the last plan of each command."""
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


_TEXT = (files(__package__) / "sql" / "commit.sql").read_text(encoding="utf-8")
_PART = re.compile(r"^-- part: (\w+)\n", re.MULTILINE)
_PARAMETER = re.compile(r"\$(\d+)")


def statement(
    parts: Collection[str], arguments: Sequence[Any]
) -> tuple[str, Sequence[Any]]:
    """Return the statement, and the arguments that occur in it."""
    text, numbers = _assemble(frozenset(parts))
    return text, [arguments[number - 1] for number in numbers]


@cache
def _assemble(parts: frozenset[str]) -> tuple[str, list[int]]:
    """Join the needed parts and number the parameters that are left."""
    first, *marked = _PART.split(_TEXT)
    texts = [first]
    for name, text in zip(marked[::2], marked[1::2], strict=True):
        if name == "all" or name in parts:
            texts.append(text)
    text = "".join(texts)
    numbers = sorted({int(number) for number in _PARAMETER.findall(text)})
    new = {number: str(index) for index, number in enumerate(numbers, 1)}
    return _PARAMETER.sub(lambda found: "$" + new[int(found[1])], text), numbers
