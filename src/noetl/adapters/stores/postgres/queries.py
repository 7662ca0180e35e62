"""Named queries of the store in PostgreSQL: concurrency keys, calls, records."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from noetl.adapters.postgres import Postgres
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
from noetl.adapters.stores.summaries import EncodedSummary, decode_summary, keys_in
from noetl.errors import StoreError
from noetl.ports import (
    CallLimit,
    CommandRecord,
    ConcurrencySlot,
    Lease,
    QueuedExecution,
    Records,
    Snapshot,
    Timer,
    Transition,
)

SQL = read_queries(__package__)

MAX_LINES = 1_000
"""Cached lines; at this number the cache is emptied. A line never changes."""


class PlaybookLines:
    """Stores lines that are new, and reads those that are not cached."""

    def __init__(self, postgres: Postgres) -> None:
        self._postgres = postgres
        self._lines: dict[str, str] = {}

    async def keep(self, summaries: Iterable[EncodedSummary]) -> None:
        """Store the lines that these summaries need."""
        new = {
            each.key: each.line
            for each in summaries
            if each.key is not None and each.key not in self._lines
        }
        if new:
            rows = list(new), list(new.values())
            await self._postgres.run(lambda c: c.execute(SQL["keep_playbooks"], *rows))
            self._remember(new)

    async def find(self, texts: Sequence[str]) -> Mapping[str, str]:
        """Return the lines that summaries need, by their keys."""
        keys = keys_in(texts)
        found = {key: self._lines[key] for key in keys & self._lines.keys()}
        if missing := list(keys - found.keys()):
            rows = await self._postgres.run(
                lambda c: c.fetch(SQL["playbooks"], missing)
            )
            read = {row["key"]: row["body"] for row in rows}
            self._remember(read)
            found |= read
        return found

    def _remember(self, lines: Mapping[str, str]) -> None:
        if len(self._lines) + len(lines) > MAX_LINES:
            self._lines.clear()
        self._lines.update(lines)


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


async def read_records(connection: Any, execution_id: str) -> Records:
    """Return the rows of an execution, all as of one moment. Raises ``StoreError``
    (``store.missing``)."""
    async with connection.transaction(isolation="repeatable_read", readonly=True):
        row = await connection.fetchrow(SQL["record"], execution_id)
        if row is None:
            message = f"there is no execution {execution_id}"
            raise StoreError(message, "store.missing")
        number, last_seq, status, request_key, text = row
        lines = await connection.fetch(SQL["playbooks"], list(keys_in([text])))
        span = (f"{execution_id}-", f"{execution_id}.")
        commands = await connection.fetch(SQL["record_commands"], *span)
        timers = await connection.fetch(SQL["record_timers"], number)
        snapshot = await connection.fetchrow(SQL["snapshot"], execution_id)
        tallies = await connection.fetch(SQL["record_tallies"], number)
        place = await connection.fetchrow(SQL["record_slot"], number)
    return Records(
        last_seq,
        status,
        decode_summary(execution_id, text, dict(lines)),
        request_key,
        [CommandRecord(*each) for each in commands],
        [Timer(execution_id, *each) for each in timers],
        Snapshot(*snapshot) if snapshot else None,
        [tuple(each) for each in tallies],
        ConcurrencySlot(*place) if place else None,
    )
