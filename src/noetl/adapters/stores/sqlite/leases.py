"""Who may run what: claim, renew and expire on the rows of commands."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from math import inf

from noetl.adapters.stores.leasing import GRACE, OPEN, OVER, deal
from noetl.adapters.stores.sqlite.memory import Memory
from noetl.adapters.stores.sqlite.queries import SQL
from noetl.engine.times import NEVER
from noetl.ports import Lease, Timer


class Leases:
    """Remembers whose turn it is; everything else is in the rows."""

    def __init__(self, boot_id: str, memory: Memory) -> None:
        self._boot_id = boot_id
        self._memory = memory
        self._turns: dict[str, int] = {}

    def claim(
        self,
        db: sqlite3.Connection,
        owner: str,
        pool: str,
        slots: int,
        expires_at: float,
        now: float,
    ) -> list[Lease]:
        db.execute(SQL["make_due"], (now,))
        hands = []
        for number, execution_id in self._in_turn(db, pool, slots, owner, now):
            sought = (pool, number, owner, now, slots)
            ready = db.execute(SQL["ready_commands"], sought)
            hands.append([(number, execution_id, *row) for row in ready.fetchall()])
        leases, rows = [], []
        for number, execution_id, command_id, epoch, together in deal(hands, slots):
            lease = Lease(command_id, execution_id, owner, epoch + 1)
            leases.append(lease)
            self._memory.keep_lease(lease)
            rows.append((epoch + 1, owner, self._boot_id, expires_at, command_id))
            self._turns[pool] = number
            if together is not None:
                db.execute(SQL["keep_together"], (together, owner, expires_at))
        db.executemany(SQL["lease"], rows)
        if not db.execute(SQL["is_offered"], (pool,)).fetchone():
            (due,) = db.execute(SQL["next_due"]).fetchone()
            self._memory.keep_quiet(pool, NEVER if due is None else due)
        return leases

    def sweep(self, db: sqlite3.Connection, now: float) -> list[Timer]:
        """Expired leases end here; their epoch rises with the next claim."""
        if db.execute(SQL["expire"], (now - GRACE,)).rowcount:
            self._memory.drop_leases()
            self._memory.end_quiet()
        if db.execute(SQL["forget_keepers"], (now - GRACE,)).rowcount:
            self._memory.end_quiet()
        return [Timer(*row) for row in db.execute(SQL["due_timers"], (now,))]

    def _in_turn(
        self, db: sqlite3.Connection, pool: str, slots: int, owner: str, now: float
    ) -> list[tuple[int, str]]:
        """Executions with ready commands, from after the last one served, once round.

        Each costs one look at the index, however many commands it has (I-39).
        """
        found: list[tuple[int, str]] = []
        first = self._turns.get(pool, 0)
        at, wrapped = first, False
        while len(found) < slots:
            sought = (pool, at, owner, now)
            row = db.execute(SQL["next_execution"], sought).fetchone()
            if row is None and wrapped:
                break
            if row is None:
                at, wrapped = 0, True
                continue
            at, execution_id, status = row
            if wrapped and at > first:
                break
            if status in OPEN:
                found.append((at, execution_id))
            elif status in OVER:  # so that the next claim need not walk over them
                db.execute(SQL["end_ready"], (pool, at))
        return found


def renew(
    db: sqlite3.Connection, leases: Sequence[Lease], expires_at: float
) -> list[Lease]:
    """Those that were lost."""
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


def forgive(db: sqlite3.Connection, leases: Sequence[Lease]) -> None:
    keys = [(lease.command_id, lease.epoch, lease.owner) for lease in leases]
    db.executemany(SQL["forgive"], keys)


def disarm(db: sqlite3.Connection, timer: Timer) -> None:
    db.execute(SQL["disarm_by_name"], (timer.timer_id, timer.execution_id))


def expire_other_boots(db: sqlite3.Connection, boot_id: str) -> None:
    """Their owners ended with the process that held the store (RELIABILITY 5.10)."""
    db.execute("BEGIN IMMEDIATE")
    db.execute(SQL["expire_other_boots"], (boot_id,))
    db.execute(SQL["forget_keepers"], (inf,))
    db.execute("COMMIT")
