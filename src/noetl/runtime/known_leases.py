"""Leases that a server knows of without asking its store."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from noetl.ports import Lease

MOST = 65_536
"""Leases that are remembered; others are looked up in the store."""


class KnownLeases:
    """Leases that this process gave out, or found in the store, with their pools.

    An entry says who got a command last, as far as this process knows. Whether the
    lease is still held, the store says when something is recorded under it.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._by_command: OrderedDict[str, tuple[Lease, str]] = OrderedDict()

    def note(self, lease: Lease, pool: str) -> None:
        self._by_command[lease.command_id] = lease, pool
        if len(self._by_command) > self._most:
            self._by_command.popitem(last=False)

    def find(self, command_id: str, epoch: int, owner: str) -> tuple[Lease, str] | None:
        """The lease and its pool, if this owner got the command at this epoch."""
        known = self._by_command.get(command_id)
        if known is None or (known[0].epoch, known[0].owner) != (epoch, owner):
            return None
        return known

    def drop(self, command_ids: Iterable[str]) -> None:
        for command_id in command_ids:
            self._by_command.pop(command_id, None)
