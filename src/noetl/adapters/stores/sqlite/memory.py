"""What the one writer knows without asking: where logs end, who holds what, and where
nothing is to be had."""

from __future__ import annotations

from typing import NamedTuple

from noetl.ports import Lease

MOST = 10_000
"""Executions whose position is remembered; then it is forgotten, and asked again."""


class Head(NamedTuple):
    """Where an execution's log ends."""

    number: int
    last_seq: int
    last_hash: bytes
    summary: str
    status: str


class Memory:
    """Nobody else writes the file, so what was written is what is there.

    What is missing here is in the file. After a rollback everything is.
    """

    def __init__(self) -> None:
        self._heads: dict[str, Head] = {}
        self._held: dict[str, Lease] = {}
        self._quiet: dict[str, float] = {}

    def head(self, execution_id: str) -> Head | None:
        return self._heads.get(execution_id)

    def keep_head(self, execution_id: str, head: Head) -> None:
        if len(self._heads) >= MOST:
            self._heads.clear()
        self._heads[execution_id] = head

    def drop_head(self, execution_id: str) -> None:
        self._heads.pop(execution_id, None)

    def holds(self, lease: Lease) -> bool:
        return self._held.get(lease.command_id) == lease

    def keep_lease(self, lease: Lease) -> None:
        self._held[lease.command_id] = lease

    def drop_lease(self, command_id: str) -> None:
        self._held.pop(command_id, None)

    def drop_leases(self) -> None:
        self._held.clear()

    def is_quiet(self, pool: str, now: float) -> bool:
        """Whether nothing can be claimed there, for certain."""
        return now < self._quiet.get(pool, 0.0)

    def keep_quiet(self, pool: str, until: float) -> None:
        """Nothing is left of what is ready; what is delayed is not due before."""
        self._quiet[pool] = until

    def end_quiet(self) -> None:
        """Something may be ready now, in whatever pool."""
        self._quiet.clear()

    def clear(self) -> None:
        self._heads.clear()
        self._held.clear()
        self._quiet.clear()
