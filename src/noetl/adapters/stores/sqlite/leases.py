"""Changes besides commits: leases, timers, statuses, and removal of executions."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from math import inf

from noetl.adapters.stores.call_limits import KEEP_S, Line, answer, lost_lease
from noetl.adapters.stores.rules import GRACE, OPEN, OVER, Turn, in_turn, once_round
from noetl.adapters.stores.sqlite.schema import SQL, WAITS_SQL
from noetl.adapters.stores.sqlite.transitions import SEQ_BITS, Head, Memory, Queue
from noetl.adapters.stores.summaries import decode_stored, encode_summary
from noetl.engine.times import NEVER
from noetl.errors import StoreError
from noetl.ports import CallLimit, Lease, Summary, Timer

_Offer = tuple[int, int, str, str, int, str | None]
"""Family, execution, execution id, command id, epoch and affinity."""


def _sql(waits: bool) -> Mapping[str, str]:
    return WAITS_SQL if waits else SQL


class Leases:
    """Claims commands in turns; remembers the last turn of each pool."""

    def __init__(self, boot_id: str, memory: Memory) -> None:
        self._boot_id = boot_id
        self._memory = memory
        self._turns: dict[Queue, Turn] = {}

    def claim(
        self,
        db: sqlite3.Connection,
        owner: str,
        queue: Queue,
        slots: int,
        expires_at: float,
        now: float,
    ) -> list[Lease]:
        db.execute(SQL["make_due"], (now,))
        turn = self._turns.setdefault(queue, Turn())
        offers = in_turn(
            in_turn(self._hands(db, queue, family, slots, owner, now))
            for family in self._families(db, queue, owner, now)
        )
        leases, rows = [], []
        for family, number, execution_id, name, epoch, affinity in list(
            islice(offers, slots)
        ):
            lease = Lease(name, execution_id, owner, epoch + 1)
            leases.append(lease)
            self._memory.held[name] = lease
            rows.append((epoch + 1, owner, self._boot_id, expires_at, name))
            turn.note(family, number)
            if affinity is not None:
                db.execute(SQL["keep_affinity"], (affinity, owner, expires_at))
        db.executemany(SQL["lease"], rows)
        pool, waits = queue
        if not db.execute(_sql(waits)["is_offered"], (pool,)).fetchone():
            (due,) = db.execute(SQL["next_due"]).fetchone()
            self._memory.quiet[queue] = NEVER if due is None else due
        return leases

    def sweep(self, db: sqlite3.Connection, now: float) -> list[Timer]:
        """End expired leases and return due timers; epochs rise with the next claim."""
        if db.execute(SQL["expire"], (now - GRACE,)).rowcount:
            self._memory.held.clear()
            self._memory.quiet.clear()
        if db.execute(SQL["forget_keepers"], (now - GRACE,)).rowcount:
            self._memory.quiet.clear()
        return [Timer(*row) for row in db.execute(SQL["due_timers"], (now,))]

    def _families(
        self, db: sqlite3.Connection, queue: Queue, owner: str, now: float
    ) -> Iterator[int]:
        """Iterate over families with ready commands, from after the last one served.

        A family costs one index lookup, whatever the number of its commands (I-39);
        so does each of its executions.
        """

        pool, waits = queue
        query = _sql(waits)["next_family"]

        def following(at: int) -> tuple[int] | None:
            sought = (pool, at, owner, now)
            found: tuple[int] | None = db.execute(query, sought).fetchone()
            return found

        for (family,) in once_round(self._turns[queue].family, following):
            yield family

    def _hands(
        self,
        db: sqlite3.Connection,
        queue: Queue,
        family: int,
        slots: int,
        owner: str,
        now: float,
    ) -> Iterator[list[_Offer]]:
        """Iterate over the executions of a family with their ready commands, beginning
        with the execution whose turn it is."""

        pool, waits = queue
        queries = _sql(waits)

        def following(at: int) -> tuple[int, str, str] | None:
            sought = (pool, family, at, owner, now)
            found: tuple[int, str, str] | None
            found = db.execute(queries["next_execution"], sought).fetchone()
            return found

        first = self._turns[queue].after(family)
        for number, execution_id, status in once_round(first, following):
            if status in OPEN:
                sought = (pool, family, number, owner, now, slots)
                ready = db.execute(queries["ready_commands"], sought).fetchall()
                yield [(family, number, execution_id, *row) for row in ready]
            elif status in OVER:  # the next claim need not skip them again
                db.execute(SQL["end_ready"], (pool, family, number))


def renew(
    db: sqlite3.Connection, leases: Sequence[Lease], expires_at: float
) -> list[Lease]:
    """Extend leases; return those that are lost."""
    lost = []
    for lease in leases:
        key = (lease.command_id, lease.epoch, lease.owner, lease.execution_id)
        row = (expires_at, *key)
        if not db.execute(SQL["renew"], row).rowcount:
            lost.append(lease)
        else:
            kept = (expires_at, lease.owner, lease.command_id)
            db.execute(SQL["keep_on"], kept)
    return lost


def permit(
    db: sqlite3.Connection, lease: Lease, limits: Sequence[CallLimit], now: float
) -> float:
    """Permit one call; return 0, or the time at which to ask again."""
    held = (lease.command_id, lease.epoch, lease.owner, lease.execution_id)
    if db.execute(SQL["holds"], held).fetchone() is None:
        raise lost_lease(lease)
    db.execute(SQL["leave_call_slots"], (lease.command_id,))
    lines, taken = {}, {}
    for limit in limits:
        found = db.execute(SQL["call_line"], (limit.key,)).fetchone()
        lines[limit.key] = Line(*found) if found else Line()
        if not limit.interval:
            db.execute(SQL["end_call_slots"], (limit.key,))
            [count] = db.execute(SQL["count_call_slots"], (limit.key,)).fetchone()
            taken[limit.key] = count
    at, changed = answer(limits, lines, taken, now)
    db.executemany(SQL["set_call_line"], [(k, *line) for k, line in changed.items()])
    for limit in limits if not at else ():
        if not limit.interval:
            row = (limit.key, lease.command_id, lease.epoch)
            db.execute(SQL["take_call_slot"], row)
    if limits:
        db.execute(SQL["forget_call_lines"], (now - KEEP_S,))
    return at


def forgive(db: sqlite3.Connection, leases: Sequence[Lease]) -> None:
    keys = [(lease.command_id, lease.epoch, lease.owner) for lease in leases]
    db.executemany(SQL["forgive"], keys)


def claim_exports(
    db: sqlite3.Connection, timer_id: str, now: float, until: float, limit: int
) -> list[str]:
    found = db.execute(SQL["waiting_exports"], (timer_id, now, limit)).fetchall()
    rows = [(until, timer_id, execution_id) for (execution_id,) in found]
    db.executemany(SQL["postpone_export"], rows)
    return [execution_id for (execution_id,) in found]


def disarm(db: sqlite3.Connection, timer: Timer) -> None:
    db.execute(SQL["disarm_by_name"], (timer.timer_id, timer.execution_id))


def expire_other_boots(db: sqlite3.Connection, boot_id: str) -> None:
    """End leases of an earlier boot: their owners ended with it (RELIABILITY 5.10)."""
    db.execute("BEGIN IMMEDIATE")
    db.execute(SQL["expire_other_boots"], (boot_id,))
    db.execute(SQL["forget_keepers"], (inf,))
    db.execute("COMMIT")


def set_status(db: sqlite3.Connection, summary: Summary) -> None:
    """Replace the line of an unfinished execution.

    In quarantine its leases cannot be renewed: their owners stop, and the commands are
    offered again when the leases have expired.
    """
    row = db.execute(SQL["head"], (summary.execution_id,)).fetchone()
    if row is None:
        message = f"there is no execution {summary.execution_id}"
        raise StoreError(message, "store.missing")
    number = Head(*row).number
    text, key, line = encode_summary(summary)
    if key is not None:
        db.execute(SQL["keep_playbook"], (key, line))
    db.execute(SQL["set_status"], (summary.status, text, number))


_NAMES = ("event_is_never_removed", "batch_is_never_removed")
_GUARD = "SELECT sql FROM sqlite_master WHERE type = 'trigger' AND name = ?"


def remove(db: sqlite3.Connection, execution_ids: Sequence[str]) -> None:
    """Remove all of them or none. Raises ``StoreError`` if one is unfinished."""
    numbers = []
    for execution_id in execution_ids:
        row = db.execute(SQL["head"], (execution_id,)).fetchone()
        if row is None:
            raise StoreError(f"there is no execution {execution_id}", "store.missing")
        if decode_stored(row[3]).finished_at is None:
            message = f"execution {execution_id} is not over: it is not removed"
            raise StoreError(message, "store.conflict")
        numbers.append((row[0], execution_id))
    gone = {number for number, _ in numbers}
    for number, execution_id in numbers:
        if {fork for (fork,) in db.execute(SQL["forks_of"], (number,))} - gone:
            message = f"execution {execution_id} has a fork: it is not removed"
            raise StoreError(message, "store.conflict")
    # Triggers forbid deleting events. They are dropped for the removal of whole
    # executions, and created again in the same transaction.
    guards = [guard for name in _NAMES for (guard,) in db.execute(_GUARD, (name,))]
    for name in _NAMES:
        db.execute(f"DROP TRIGGER {name}")
    for number, execution_id in numbers:
        first = number << SEQ_BITS
        span = (first, first + (1 << SEQ_BITS) - 1)
        db.execute(SQL["remove_events"], span)
        db.execute(SQL["remove_batches"], span)
        db.execute(SQL["remove_tallies"], (number,))
        db.execute(SQL["remove_commands"], (f"{execution_id}-", f"{execution_id}."))
        db.execute(SQL["disarm_all"], (number,))
        db.execute(SQL["leave_slot"], (number,))
        db.execute(SQL["remove_snapshot"], (number,))
        db.execute(SQL["remove_execution"], (number,))
    for guard in guards:
        db.execute(guard)
