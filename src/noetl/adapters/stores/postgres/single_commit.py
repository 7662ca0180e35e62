"""Most transitions are plain: one report, or none, and one command, or none.

One that is alone costs half of what it costs as a group, whose statement has a part for
everything that may happen; in a group it costs more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import asyncpg

from noetl.adapters.stores.encoding import Encoded
from noetl.adapters.stores.postgres.plans import (
    changed_commands,
    offers_of,
    planned_commands,
)

LOST = -1
_NO_LEASE: tuple[Any, ...] = (None,) * 3
_NO_COMMAND: tuple[Any, ...] = (None,) * 9

_COMMIT = "SELECT commit_plain({})".format(
    ", ".join(f"${number}" for number in range(1, 24))
)


async def commit(connection: Any, arguments: Sequence[Any]) -> int | None:
    """None if it is stored; ``LOST``, or the position of the log that was found."""
    try:
        found: int | None = await connection.fetchval(_COMMIT, *arguments)
    except asyncpg.RaiseError:
        return LOST
    return found


def plain(
    item: Encoded, hashes: Sequence[bytes], last_hash: bytes, was_open: bool
) -> Sequence[Any] | None:
    """The arguments of ``commit``; None if the transition is not plain."""
    transition = item.transition
    if (
        len(transition.leases) > 1
        or len(transition.commands) > 1
        or transition.timers
        or transition.disarm
        or transition.notify
        or transition.snapshot is not None
        or transition.place is not None
    ):
        return None
    offers, lease, ends, number = offers_of(transition), _NO_LEASE, False, None
    if offers != "over" and not (offers == "open" and (was_open or item.after == 0)):
        return None
    for each in transition.leases:
        lease = each.command_id, each.epoch, each.owner
        number = transition.reported.get(each.command_id)
        ends = each.command_id in transition.done
    if len(list(changed_commands(transition))) > ends:
        return None
    command = _NO_COMMAND
    for planned in planned_commands(transition):
        command = (*planned, transition.commands[0].together)
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
    )
