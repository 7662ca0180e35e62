"""Rows of a commit: events, commands, timers, slots, and the checks before them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain as concatenate
from typing import Any, NamedTuple

import msgspec

from noetl.adapters.stores.batches import FIRST, Batch, chain
from noetl.adapters.stores.encoding import Encoded
from noetl.adapters.stores.rules import (
    OPEN,
    OVER,
    TIMER_ID,
    Aside,
    is_slot_free,
    next_to_admit,
    only_waits,
    outlives,
    rank_of,
    ready_since,
    refuse_stale,
)
from noetl.adapters.stores.sqlite.schema import SQL
from noetl.ports import Grant, Lease, QueuedExecution, Transition

MAX_HEADS = 10_000
"""Cached ends of logs; at this number the cache is emptied."""


Queue = tuple[str, bool]
"""A pool, and whether a claim asks only for commands that need no slot."""


class Head(NamedTuple):
    """The end of an execution's log, with its summary and status."""

    number: int
    last_seq: int
    last_hash: bytes
    summary: str
    status: str
    family: int | None


class Memory(msgspec.Struct):
    """Cache of the rows that this process, the only writer, has written: ends of logs
    by execution, held leases by command, and keys of playbooks.

    Rows that are not cached are read from the file. A rollback empties the cache. A
    queue has no ready command until its time in ``quiet``.
    """

    heads: dict[str, Head] = msgspec.field(default_factory=dict)
    held: dict[str, Lease] = msgspec.field(default_factory=dict)
    quiet: dict[Queue, float] = msgspec.field(default_factory=dict)
    playbooks: set[str] = msgspec.field(default_factory=set)

    def clear(self) -> None:
        self.heads.clear()
        self.held.clear()
        self.quiet.clear()
        self.playbooks.clear()

    def wake_slots(self) -> None:
        """Forget that queues of commands which need a slot were empty."""
        for queue in [queue for queue in self.quiet if not queue[1]]:
            del self.quiet[queue]


def slots_of(db: sqlite3.Connection, key: str) -> list[QueuedExecution]:
    """Return holders of slots and waiting executions in the order of arrival."""
    return _queued(db, "slots", key)


def may_take_slot(db: sqlite3.Connection, transition: Transition) -> bool:
    """Return whether a slot is free for the execution of this transition."""
    assert transition.slot is not None
    return is_slot_free(transition, _queued(db, "slots_in_front", transition.slot.key))


def change_slot(db: sqlite3.Connection, number: int, transition: Transition) -> None:
    """Take a slot, wait for it or give it back; wake the next execution."""
    slot = transition.slot
    if slot is None:
        return
    if transition.summary.status in OVER:
        db.execute(SQL["leave_slot"], (number,))
    else:
        row = (number, slot.key, slot.limit, slot.queued)
        db.execute(SQL["take_slot"], row)
    following = next_to_admit(_queued(db, "slots_in_front", slot.key))
    if following is not None:
        db.execute(SQL["notify"], (TIMER_ID, 0.0, "place", following))


def _queued(db: sqlite3.Connection, query: str, key: str) -> list[QueuedExecution]:
    return [
        QueuedExecution(execution_id, limit, bool(queued))
        for execution_id, limit, queued in db.execute(SQL[query], (key,))
    ]


_SIZES = (64, 16, 8, 7, 6, 5, 4, 3, 2, 1)
"""Rows of one statement. A few sizes are enough, and stay prepared."""


def run(db: sqlite3.Connection, sql: str, rows: Sequence[Sequence[Any]]) -> None:
    """Run a statement for all rows.

    The text between ``/* row */`` and ``/* end */`` is repeated for each row.
    """
    if len(rows) == 1:  # most often, and then nothing needs to be divided
        db.execute(_repeated(sql, 1), rows[0])
        return
    for some in _parts(rows):
        db.execute(_repeated(sql, len(some)), list(concatenate.from_iterable(some)))


def _parts(rows: Sequence[Sequence[Any]]) -> Iterator[Sequence[Sequence[Any]]]:
    start = 0
    for size in _SIZES:
        while len(rows) - start >= size:
            yield rows[start : start + size]
            start += size


@cache
def _repeated(sql: str, count: int) -> str:
    before, _, rest = sql.partition("/* row */")
    row, _, after = rest.partition("/* end */")
    return before + ",".join([row] * count) + after


SEQ_BITS = 32
"""Bits of ``seq`` in the key of a batch; the execution's number is above them."""


def record(
    db: sqlite3.Connection, group: Sequence[Encoded], boot_id: str, memory: Memory
) -> None:
    """Check the whole group, then write it; a refused group has written nothing."""
    heads: dict[str, Head | None] = {}

    def position(execution_id: str) -> int:
        head = memory.heads.get(execution_id)
        if head is None:
            row = db.execute(SQL["head"], (execution_id,)).fetchone()
            head = Head(*row) if row else None
        heads[execution_id] = head
        if head is not None and head.status == "quarantined":
            raise Aside(execution_id)
        return head.last_seq if head else 0

    def is_held(lease: Lease) -> bool:
        if memory.held.get(lease.command_id) == lease:
            return True
        key = (lease.command_id, lease.epoch, lease.owner, lease.execution_id)
        return db.execute(SQL["holds"], key).fetchone() is not None

    def is_known(key: str) -> bool:
        return db.execute(SQL["request"], (key,)).fetchone() is not None

    def is_slot_free(transition: Transition) -> bool:
        return may_take_slot(db, transition)

    transitions = [item.transition for item in group]
    refuse_stale(transitions, position, is_held, is_known, is_slot_free)
    for item in group:
        execution_id = item.transition.execution_id
        head = _write(db, item, heads[execution_id], boot_id, memory)
        heads[execution_id] = head
        if item.transition.summary.status in OVER:
            memory.heads.pop(execution_id, None)
        else:
            if len(memory.heads) >= MAX_HEADS:
                memory.heads.clear()
            memory.heads[execution_id] = head


def _write(
    db: sqlite3.Connection,
    item: Encoded,
    head: Head | None,
    boot_id: str,
    memory: Memory,
) -> Head:
    transition = item.transition
    text, key, line = item.summary
    if key is not None and key not in memory.playbooks:
        db.execute(SQL["keep_playbook"], (key, line))
        memory.playbooks.add(key)
    if head is None:
        head = _begin(db, item)
    elif head.summary != text:
        status = transition.summary.status
        if status in OPEN and head.status not in OPEN:
            memory.quiet.clear()  # its commands are offered again
        db.execute(SQL["summarize"], (status, text, head.number))
    last_seq, last_hash = _append(db, head, item.batches)
    if item.batches:
        db.execute(SQL["advance"], (last_seq, last_hash, head.number))
    if transition.log.snapshot is not None:
        db.execute(SQL["keep"], (head.number, last_seq, transition.log.snapshot))
    _change_commands(db, head, transition, boot_id, memory)
    _change_timers(db, head.number, transition)
    change_slot(db, head.number, transition)
    for timer in transition.timers.relatives:
        row = (timer.timer_id, timer.due_at, timer.kind, timer.execution_id)
        db.execute(SQL["notify"], row)
    status = transition.summary.status
    return Head(head.number, last_seq, last_hash, text, status, head.family)


def _begin(db: sqlite3.Connection, item: Encoded) -> Head:
    transition = item.transition
    status, key = transition.summary.status, transition.request_key
    family = None
    if (caller := transition.summary.parent_id) is not None:
        (family,) = db.execute(SQL["family"], (caller,)).fetchone() or (None,)
    text = item.summary.text
    row = (transition.execution_id, status, text, key, family)
    number = db.execute(SQL["begin_execution"], row).lastrowid
    assert number is not None
    return Head(number, 0, FIRST, text, status, family)


def _append(
    db: sqlite3.Connection, head: Head, batches: Sequence[Batch]
) -> tuple[int, bytes]:
    """Append batches; return position and hash of the end of the log."""
    base = head.number << SEQ_BITS
    rows = chain(batches, head.last_seq, head.last_hash)
    run(db, SQL["append"], [(base + row.last_seq, *row[1:]) for row in rows])
    return rows[-1][:2] if rows else (head.last_seq, head.last_hash)


def _change_commands(
    db: sqlite3.Connection,
    head: Head,
    transition: Transition,
    boot_id: str,
    memory: Memory,
) -> None:
    changes = transition.commands
    planned = {command.command_id: command for command in changes.planned}
    granted = _grant(changes.grant, boot_id, memory)
    ranks: dict[str, int] = {}
    since = ready_since(transition) if planned else 0.0
    if planned:
        ready, leased = [], []
        for index, (name, each) in enumerate(planned.items()):
            rank = ranks[name] = rank_of(each, transition.log.after, index)
            # A root is its own family: families take turns.
            kin = (head.number, head.family or head.number)
            row = (name, *kin, rank, each.pool, each.affinity)
            if name in granted:
                leased.append((*row, *granted.pop(name)))
            else:
                due = each.not_before
                ready.append((*row, _state(due), due or since))
        if ready:
            if any(only_waits(ranks[row[0]]) for row in ready):
                memory.quiet.clear()
            else:
                memory.wake_slots()
            run(db, SQL["plan"], ready)
        if leased:
            run(db, SQL["plan_leased"], leased)
    if granted:
        db.executemany(SQL["lease"], [(*row, name) for name, row in granted.items()])
    for command_id, count in transition.reports.numbers.items():
        db.execute(SQL["count"], (count, command_id))
    if changes.ended:
        run(db, SQL["end"], [(name,) for name in changes.ended])
        for name in changes.ended:
            memory.held.pop(name, None)
    ended = set(changes.ended)
    released = [name for name in changes.released if name not in ended]
    if released:
        memory.quiet.clear()
    for name in released:
        memory.held.pop(name, None)
        if command := planned.get(name):
            due = command.not_before
            place = None if command.turn is None else ranks[name]
            again = (_state(due), due or since, place, name)
            db.execute(SQL["reschedule"], again)
        else:
            db.execute(SQL["release"], (name,))


def _grant(
    grant: Grant | None, boot_id: str, memory: Memory
) -> dict[str, tuple[int, str, str, float]]:
    """Return the columns of granted leases, by command."""
    granted: dict[str, tuple[int, str, str, float]] = {}
    if grant is not None:
        until = grant.expires_at
        for lease in grant.leases:
            granted[lease.command_id] = (lease.epoch, lease.owner, boot_id, until)
            memory.held[lease.command_id] = lease
    return granted


def _state(not_before: float) -> str:
    return "delayed" if not_before > 0 else "ready"


def _change_timers(db: sqlite3.Connection, number: int, transition: Transition) -> None:
    for timer_id in transition.timers.disarmed:
        db.execute(SQL["disarm"], (number, timer_id))
    over = transition.summary.status in OVER
    if over:
        db.execute(SQL["disarm_over"], (number,))
    for timer in transition.timers.armed:
        if not over or outlives(timer):
            row = (number, timer.timer_id, timer.due_at, timer.kind)
            db.execute(SQL["arm"], row)
