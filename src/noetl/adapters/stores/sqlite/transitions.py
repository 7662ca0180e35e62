"""A commit's rows: fence, events, commands and timers."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from noetl.adapters.stores.chain import FIRST, link
from noetl.adapters.stores.encoding import Encoded, encode_summary
from noetl.adapters.stores.leasing import OPEN, OVER, outlives
from noetl.adapters.stores.refusals import Aside, refuse_stale
from noetl.adapters.stores.sqlite.bulk import run
from noetl.adapters.stores.sqlite.memory import Head, Memory
from noetl.adapters.stores.sqlite.places import change_place, is_room_for
from noetl.adapters.stores.sqlite.queries import SQL
from noetl.errors import StoreError
from noetl.ports import Lease, Summary, Transition

SEQ_BITS = 32
"""The key of an event is its execution's number, shifted, and its ``seq``."""

RANK_BITS = 24
"""The rank of a command is the position it was planned at, shifted, and its place."""


def record(
    db: sqlite3.Connection, group: Sequence[Encoded], boot_id: str, memory: Memory
) -> None:
    """Check all of them, then write; a refusal has written nothing."""
    heads: dict[str, Head | None] = {}

    def position(execution_id: str) -> int:
        head = memory.head(execution_id)
        if head is None:
            row = db.execute(SQL["head"], (execution_id,)).fetchone()
            head = Head(*row) if row else None
        heads[execution_id] = head
        if head is not None and head.status == "quarantined":
            raise Aside(execution_id)
        return head.last_seq if head else 0

    def is_held(lease: Lease) -> bool:
        if memory.holds(lease):
            return True
        key = (lease.command_id, lease.epoch, lease.owner, lease.execution_id)
        return db.execute(SQL["holds"], key).fetchone() is not None

    def is_known(key: str) -> bool:
        return db.execute(SQL["request"], (key,)).fetchone() is not None

    def has_room(transition: Transition) -> bool:
        return is_room_for(db, transition)

    transitions = [item.transition for item in group]
    refuse_stale(transitions, position, is_held, is_known, has_room)
    for item in group:
        execution_id = item.transition.execution_id
        head = _write(db, item, heads[execution_id], boot_id, memory)
        heads[execution_id] = head
        if item.transition.summary.status in OVER:
            memory.drop_head(execution_id)
        else:
            memory.keep_head(execution_id, head)


def mark(db: sqlite3.Connection, summary: Summary) -> None:
    """Leases of what is set aside end: whoever has them hears of it with its beat."""
    row = db.execute(SQL["head"], (summary.execution_id,)).fetchone()
    if row is None:
        message = f"there is no execution {summary.execution_id}"
        raise StoreError(message, "store.missing")
    number = Head(*row).number
    db.execute(SQL["mark"], (summary.status, encode_summary(summary), number))
    if summary.status == "quarantined":
        db.execute(SQL["release_all"], (number,))


def _write(
    db: sqlite3.Connection,
    item: Encoded,
    head: Head | None,
    boot_id: str,
    memory: Memory,
) -> Head:
    transition = item.transition
    if head is None:
        head = _begin(db, item)
    elif head.summary != item.summary:
        status = transition.summary.status
        if status in OPEN and head.status not in OPEN:
            memory.end_quiet()  # what was held back is offered now
        db.execute(SQL["summarize"], (status, item.summary, head.number))
    last_hash = _append(db, head, item.bodies)
    last_seq = head.last_seq + len(item.bodies)
    if item.bodies:
        db.execute(SQL["advance"], (last_seq, last_hash, head.number))
    if transition.snapshot is not None:
        db.execute(SQL["keep"], (head.number, last_seq, transition.snapshot))
    _change_commands(db, head.number, transition, boot_id, memory)
    _change_timers(db, head.number, transition)
    change_place(db, head.number, transition)
    for timer in transition.notify:
        row = (timer.timer_id, timer.due_at, timer.kind, timer.execution_id)
        db.execute(SQL["notify"], row)
    status = transition.summary.status
    return Head(head.number, last_seq, last_hash, item.summary, status)


def _begin(db: sqlite3.Connection, item: Encoded) -> Head:
    transition = item.transition
    status, key = transition.summary.status, transition.request_key
    row = (transition.execution_id, status, item.summary, key)
    number = db.execute(SQL["begin_execution"], row).lastrowid
    assert number is not None
    return Head(number, 0, FIRST, item.summary, status)


def _append(db: sqlite3.Connection, head: Head, bodies: Sequence[bytes]) -> bytes:
    key = (head.number << SEQ_BITS) + head.last_seq
    last_hash = head.last_hash
    rows = []
    for body in bodies:
        key += 1
        last_hash = link(last_hash, body)
        rows.append((key, last_hash, body))
    run(db, SQL["append"], rows)
    return last_hash


def _change_commands(
    db: sqlite3.Connection,
    number: int,
    transition: Transition,
    boot_id: str,
    memory: Memory,
) -> None:
    planned = {command.command_id: command for command in transition.commands}
    granted = _grant(transition, boot_id, memory)
    if planned:
        ready, leased = [], []
        for rank, (name, each) in enumerate(
            planned.items(), transition.after << RANK_BITS
        ):
            row = (name, number, rank, each.pool, each.together)
            if name in granted:
                leased.append((*row, *granted.pop(name)))
            else:
                ready.append((*row, _state(each.not_before), each.not_before))
        if ready:
            memory.end_quiet()
            run(db, SQL["plan"], ready)
        if leased:
            run(db, SQL["plan_leased"], leased)
    if granted:
        db.executemany(SQL["lease"], [(*row, name) for name, row in granted.items()])
    for command_id, count in transition.reported.items():
        db.execute(SQL["count"], (count, command_id))
    if transition.done:
        run(db, SQL["end"], [(name,) for name in transition.done])
        for name in transition.done:
            memory.drop_lease(name)
    done = set(transition.done)
    released = [name for name in transition.release if name not in done]
    if released:
        memory.end_quiet()
    for name in released:
        memory.drop_lease(name)
        if command := planned.get(name):
            due = command.not_before
            db.execute(SQL["reschedule"], (_state(due), due, name))
        else:
            db.execute(SQL["release"], (name,))


def _grant(
    transition: Transition, boot_id: str, memory: Memory
) -> dict[str, tuple[int, str, str, float]]:
    """What is given to owners at once, by command."""
    granted: dict[str, tuple[int, str, str, float]] = {}
    if transition.grant is not None:
        until = transition.grant.expires_at
        for lease in transition.grant.leases:
            granted[lease.command_id] = (lease.epoch, lease.owner, boot_id, until)
            memory.keep_lease(lease)
    return granted


def _state(not_before: float) -> str:
    return "delayed" if not_before > 0 else "ready"


def _change_timers(db: sqlite3.Connection, number: int, transition: Transition) -> None:
    for timer_id in transition.disarm:
        db.execute(SQL["disarm"], (number, timer_id))
    over = transition.summary.status in OVER
    if over:  # nothing is due of what is over
        db.execute(SQL["disarm_over"], (number,))
    for timer in transition.timers:
        if not over or outlives(timer):
            row = (number, timer.timer_id, timer.due_at, timer.kind)
            db.execute(SQL["arm"], row)
