"""Refusals of transitions, raised before anything is written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

from noetl.engine.state import ExecutionStatus
from noetl.engine.times import seconds_of
from noetl.errors import LeaseLost, LogConflict, NoPlace, RequestKnown, SetAside
from noetl.ports import (
    EXPORT_TIMER,
    Backlog,
    Command,
    IdlePage,
    Lease,
    QueuedExecution,
    Timer,
    Transition,
    WaitingExports,
)

GRACE = 2.0
"""Seconds after its expiry in which a lease is not given to another owner.

A worker stops before its lease expires; the grace covers the difference of clocks.
"""

OPEN: frozenset[ExecutionStatus] = frozenset({"running", "waiting"})
"""Statuses of executions whose commands are offered (I-32, I-33)."""

OVER: frozenset[ExecutionStatus] = frozenset({"completed", "failed", "cancelled"})
"""Statuses of finished executions: their commands are never offered again."""

REMEMBERED = 256
"""Families whose last served execution a store remembers."""

C = TypeVar("C")
T = TypeVar("T", bound=tuple[Any, ...])


def count_by_pool(rows: Iterable[tuple[str, str, int]]) -> dict[str, Backlog]:
    """Add up commands by pool; ``rows`` are pool, state and number."""
    found: dict[str, Backlog] = {}
    for pool, state, count in rows:
        if state in ("ready", "leased"):
            found[pool] = found.get(pool, Backlog()).add(state, count)
    return found


def ready_since(transition: Transition) -> float:
    """Return the time at which commands are offered that are planned for no time."""
    events = transition.log.events
    return seconds_of(events[-1].timestamp) if events else 0.0


_INDEX_BITS = 24
"""Bits of a command's index in its transition; its turn is above them."""


def rank_of(command: Command, after: int, index: int) -> int:
    """Return the place of a command in the order of its execution.

    It is odd if the command only waits: such commands have an index of their own.
    """
    turn = after if command.turn is None else command.turn
    return ((turn << _INDEX_BITS) + index) << 1 | command.waits


def only_waits(rank: int) -> bool:
    """Return whether a command of this rank only waits."""
    return bool(rank & 1)


def outlives(timer: Timer) -> bool:
    """Return whether the timer outlives its execution: triggers and exports need it."""
    return timer.kind in ("finished", "export")


def exports_of(rows: Iterable[tuple[str, int, str]]) -> dict[str, WaitingExports]:
    """Return what waits by the name of the export; ``rows`` have the timer, the number
    and the oldest execution."""
    return {
        timer_id.removeprefix(EXPORT_TIMER): WaitingExports(count, oldest)
        for timer_id, count, oldest in rows
    }


def timer_of(export: str) -> str:
    """Return the id of the timers of an export."""
    return EXPORT_TIMER + export


class Turn:
    """The family that was served last in a pool, and the last execution of each.

    Executions that descend from one root are a family. A family of any size has one
    turn among the families, and its executions take turns within it.
    """

    def __init__(self) -> None:
        self.family = 0
        self.executions: dict[int, int] = {}

    def after(self, family: int) -> int:
        """Return the execution after which this family goes on; the root at first."""
        return self.executions.get(family, family)

    def note(self, family: int, execution: int) -> None:
        """Remember the served execution; after the root it is its children's turn."""
        self.family = family
        self.executions.pop(family, None)
        if family != execution:
            self.executions[family] = execution
            if len(self.executions) > REMEMBERED:
                del self.executions[next(iter(self.executions))]


def once_round(first: int, following: Callable[[int], T | None]) -> Iterator[T]:
    """Iterate over the rows after the number ``first``, then over those up to it.

    ``following`` finds the first row after a number; a row begins with its number.
    """
    at, wrapped = first, False
    while True:
        found = following(at)
        if found is None and wrapped:
            return
        if found is None:
            at, wrapped = 0, True
            continue
        at = found[0]
        if wrapped and at > first:
            return
        yield found


def in_turn(hands: Iterable[Iterable[C]]) -> Iterator[C]:
    """Take one item from each iterable in turn; each is started at its first turn."""
    line: list[Iterator[C]] = []
    for hand in map(iter, hands):
        for card in hand:
            yield card
            line.append(hand)
            break
    while line:
        left = []
        for hand in line:
            for card in hand:
                yield card
                left.append(hand)
                break
        line = left


TIMER_ID = "place"
"""Timer of the execution that is next to take a slot."""


def takes_slot(transition: Transition) -> bool:
    """Return whether the transition needs a free slot of its key to be stored."""
    slot = transition.slot
    return (
        slot is not None and not slot.queued and transition.summary.status not in OVER
    )


def is_slot_free(transition: Transition, front: Sequence[QueuedExecution]) -> bool:
    """Return whether the execution may take a slot.

    ``front`` are the holders of slots, and the first execution that waits.
    """
    mine, slot = transition.execution_id, transition.slot
    assert slot is not None
    for each in front:
        if each.execution_id == mine and not each.queued:
            return True
        if each.execution_id != mine and each.queued:
            return False  # that execution waits for longer
    return _held(front) < slot.limit


def next_to_admit(front: Sequence[QueuedExecution]) -> str | None:
    """Return the first execution that waits, if a slot is free for it."""
    for each in front:
        if each.queued:
            return each.execution_id if _held(front) < each.limit else None
    return None


def _held(front: Sequence[QueuedExecution]) -> int:
    return sum(1 for each in front if not each.queued)


class Conflict(LogConflict):
    """Names the execution whose log has moved on."""

    def __init__(self, execution_id: str, after: int, last_seq: int) -> None:
        super().__init__(
            f"execution {execution_id} is at event {last_seq}, "
            f"this was decided after event {after}"
        )
        self.execution_id = execution_id


class Lost(LeaseLost):
    """Names the command that another owner has, or none."""

    def __init__(self, lease: Lease) -> None:
        super().__init__(
            f"{lease.owner} does not hold command {lease.command_id} "
            f"at epoch {lease.epoch} any more"
        )
        self.execution_id = lease.execution_id
        self.command_id = lease.command_id


class Known(RequestKnown):
    """Names the request that has an execution already."""

    def __init__(self, transition: Transition) -> None:
        super().__init__(f"request {transition.request_key} has an execution already")
        self.execution_id = transition.execution_id


class Aside(SetAside):
    """Names the execution that is quarantined."""

    def __init__(self, execution_id: str) -> None:
        super().__init__(f"execution {execution_id} is set aside")
        self.execution_id = execution_id


class Taken(NoPlace):
    """Names the concurrency key whose slots are taken."""

    def __init__(self, transition: Transition) -> None:
        assert transition.slot is not None
        key, limit = transition.slot.key, transition.slot.limit
        super().__init__(f"no slot of the concurrency key '{key}' is free, of {limit}")
        self.execution_id = transition.execution_id


def refuse_foreign(transitions: Iterable[Transition]) -> None:
    """Raise for a lease of another execution than the transition's."""
    for transition in transitions:
        for lease in transition.reports.leases:
            if lease.execution_id != transition.execution_id:
                raise Lost(lease)


def refuse_stale(
    transitions: Iterable[Transition],
    position: Callable[[str], int],
    is_held: Callable[[Lease], bool],
    is_known: Callable[[str], bool],
    is_slot_free: Callable[[Transition], bool],
) -> None:
    """Raise for the first transition that contradicts the store or an earlier one.

    A transition is checked against the state that the earlier ones of its group will
    leave, so that a store can check the whole group first and then write it.
    """
    transitions = list(transitions)
    refuse_foreign(transitions)
    positions: dict[str, int] = {}
    ended: set[str] = set()
    keys: set[str] = set()
    for transition in transitions:
        execution_id = transition.execution_id
        last_seq = positions.get(execution_id)
        if last_seq is None:
            last_seq = position(execution_id)
        log, commands = transition.log, transition.commands
        if log.after - len(log.history) != last_seq:
            raise Conflict(execution_id, log.after, last_seq)
        key = transition.request_key
        if key is not None:
            if key in keys or is_known(key):
                raise Known(transition)
            keys.add(key)
        has_key = transition.slot is not None
        if has_key and takes_slot(transition) and not is_slot_free(transition):
            raise Taken(transition)
        for lease in transition.reports.leases:
            if lease.command_id in ended or not is_held(lease):
                raise Lost(lease)
        positions[execution_id] = log.after + len(log.events)
        ended.update(commands.ended, commands.released)


def idle_of(rows: Sequence[tuple[int, str, int, bool]], limit: int) -> IdlePage:
    """Return the idle ones of these open executions (number, id, end of the log, and
    whether it is idle), and the number to continue after: 0 after the last one."""
    found = [(name, last_seq) for _, name, last_seq, is_idle in rows if is_idle]
    return found, rows[-1][0] if len(rows) == limit else 0
