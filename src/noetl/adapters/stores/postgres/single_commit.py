"""Commit of one plain transition: at most one report, and at most one command.

Most transitions are plain. The function of the database that stores one costs half of
the statement of a group, which has a part for every change; in a group it would cost
more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import asyncpg

from noetl.adapters.stores.encoding import Encoded
from noetl.adapters.stores.postgres.commit_rows import (
    changed_commands,
    offers_of,
    planned_commands,
)
from noetl.adapters.stores.postgres.queries import SQL

LOST = -1
_NO_LEASE: tuple[Any, ...] = (None,) * 3
_NO_COMMAND: tuple[Any, ...] = (None,) * 9


async def commit(connection: Any, arguments: Sequence[Any]) -> int | None:
    """Store a plain transition; return None, or why it is refused.

    A refusal is ``LOST``, or the position at which the log was found.
    """
    try:
        found: int | None
        found = await connection.fetchval(SQL["commit_plain"], *arguments)
    except asyncpg.RaiseError:
        return LOST
    return found


def plain(
    item: Encoded, hashes: Sequence[bytes], last_hash: bytes, was_open: bool
) -> Sequence[Any] | None:
    """Return the arguments of ``commit``; None if the transition is not plain."""
    transition, reports = item.transition, item.transition.reports
    commands, timers = transition.commands, transition.timers
    if (
        len(reports.leases) > 1
        or len(commands.planned) > 1
        or timers.armed
        or timers.disarmed
        or timers.relatives
        or transition.log.snapshot is not None
        or transition.slot is not None
    ):
        return None
    offers, lease, ends, number = offers_of(transition), _NO_LEASE, False, None
    if offers != "over" and not (offers == "open" and (was_open or item.after == 0)):
        return None
    for each in reports.leases:
        lease = each.command_id, each.epoch, each.owner
        number = reports.numbers.get(each.command_id)
        ends = each.command_id in commands.ended
    if len(list(changed_commands(transition))) > ends:
        return None
    command = _NO_COMMAND
    for planned in planned_commands(transition):
        command = (*planned, commands.planned[0].affinity)
    return (
        transition.execution_id,
        item.after,
        transition.summary.status,
        item.summary,
        last_hash,
        transition.request_key,
        offers == "over",
        hashes,
        item.bodies,
        *lease,
        ends,
        number,
        *command,
        transition.summary.parent_id if item.after == 0 else None,
    )
