"""Calls of a store that its contract tests share, with ordinary arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from noetl.ports import CommandQueue, Lease, LogReader

TTL = 30.0


async def claim(queue: CommandQueue, slots: int = 1, **changes: Any) -> Sequence[Lease]:
    """Claim commands of the default pool at the time 100, for the owner ``w1``."""
    given = {"owner": "w1", "pool": "default", "now": 100.0, "ttl": TTL} | changes
    return await queue.claim(given.pop("owner"), slots=slots, **given)


async def claimed(queue: CommandQueue, slots: int = 100, **changes: Any) -> list[str]:
    """Claim commands; return their ids."""
    return [lease.command_id for lease in await claim(queue, slots, **changes)]


async def length(log: LogReader, execution_id: str) -> int:
    """Return the number of events; ``read`` and ``length`` must agree on it."""
    found = len(await log.read(execution_id))
    assert await log.length(execution_id) == found
    return found
