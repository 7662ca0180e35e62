"""Named queries of the store in PostgreSQL, and those of concurrency keys."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from noetl.adapters.sql_files import read_queries
from noetl.adapters.stores.call_limits import KEEP_S, Line, answer, lost_lease
from noetl.adapters.stores.encoding import Encoded
from noetl.adapters.stores.rules import (
    OVER,
    TIMER_ID,
    is_slot_free,
    next_to_admit,
    takes_slot,
)
from noetl.ports import CallLimit, Lease, QueuedExecution, Transition

SQL = read_queries(__package__)


async def lock_keys(connection: Any, items: Iterable[Encoded]) -> None:
    """Lock the keys of a group until the end of the transaction.

    The locks are statements of their own, so that the next statement sees the slots
    that the last holder of a lock has stored.
    """
    keys = {item.transition.slot.key for item in items if item.transition.slot}
    for key in sorted(keys):  # always in this order: no deadlock
        await connection.execute(SQL["lock_key"], key)


async def is_refused(connection: Any, transition: Transition) -> bool:
    """Return whether the transition needs a slot, and none is free for it."""
    slot = transition.slot
    if slot is None or not takes_slot(transition):
        return False
    return not is_slot_free(transition, await _front(connection, slot.key))


async def change_slot(connection: Any, transition: Transition) -> None:
    """Take a slot, wait for it or give it back; wake the next execution."""
    slot, execution_id = transition.slot, transition.execution_id
    if slot is None:
        return
    if transition.summary.status in OVER:
        await connection.execute(SQL["leave_slot"], execution_id)
    else:
        row = (execution_id, slot.key, slot.limit, slot.queued)
        await connection.execute(SQL["take_slot"], *row)
    following = next_to_admit(await _front(connection, slot.key))
    if following is not None:
        await connection.execute(SQL["notify"], following, TIMER_ID)


async def _front(connection: Any, key: str) -> list[QueuedExecution]:
    return queued_executions(await connection.fetch(SQL["slots_in_front"], key))


def queued_executions(rows: Iterable[Any]) -> list[QueuedExecution]:
    return [
        QueuedExecution(row["execution_id"], row["most"], row["queued"]) for row in rows
    ]


async def permit(
    connection: Any, lease: Lease, limits: Sequence[CallLimit], now: float
) -> float:
    """Permit one call; return 0, or the time at which to ask again.

    The row of the lease is not locked: its owner asks one question at a time.
    """
    name = lease.command_id
    async with connection.transaction():
        for key in sorted({limit.key for limit in limits}):  # no deadlock
            await connection.execute(SQL["lock_key"], key)
        held = (name, lease.epoch, lease.owner, lease.execution_id)
        if await connection.fetchval(SQL["holds"], *held) is None:
            raise lost_lease(lease)
        await connection.execute(SQL["leave_call_slots"], name)
        lines, taken = {}, {}
        for limit in limits:
            row = await connection.fetchrow(SQL["call_line"], limit.key)
            lines[limit.key] = Line(*row) if row else Line()
            if not limit.interval:
                await connection.execute(SQL["end_call_slots"], limit.key)
                count = await connection.fetchval(SQL["count_call_slots"], limit.key)
                taken[limit.key] = count
        at, changed = answer(limits, lines, taken, now)
        for key, line in changed.items():
            await connection.execute(SQL["set_call_line"], key, *line)
        for limit in limits if not at else ():
            if not limit.interval:
                row = (limit.key, name, lease.epoch)
                await connection.execute(SQL["take_call_slot"], *row)
        if limits:
            await connection.execute(SQL["forget_call_lines"], now - KEEP_S)
    return at
