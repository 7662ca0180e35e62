"""Removal of finished executions from a store, by one server at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

import msgspec

from noetl.errors import StoreError
from noetl.ports.log_maintenance import LogHead

MAX_MEMBERS = 500
"""Members of a family that are listed, and removed, at a time."""


class Family(msgspec.Struct, frozen=True):
    """A root and what descends from it.

    ``members`` are the newest ``MAX_MEMBERS`` descendants, the newest first, and then
    the root: descendants are newer than those who called them. ``more`` says whether
    there are others. A family is ``held`` while a timer of a listed member is armed, or
    while the log of a member has a fork in another family.
    """

    number: int
    members: Sequence[LogHead]
    held: bool = False
    more: bool = False


class Removal(msgspec.Struct, frozen=True):
    """Executions that are removed together; ``name`` is unique for ever."""

    name: str
    execution_ids: Sequence[str]


class LogRow(NamedTuple):
    """A row of a log as it is stored; ``last_seq`` is the position of its last
    event."""

    last_seq: int
    hash: bytes
    events: int
    dictionary: int | None
    body: bytes


class Refused(msgspec.Struct, frozen=True):
    """Another owner has the turn to remove executions."""


class Retention(Protocol):
    """Lists families of executions in a store, and removes finished ones.

    One owner at a time has the turn, which expires unless it is taken again. A removal
    that was planned and not carried out is the first thing that the next owner gets: so
    what was copied to an archive is copied under the same name, and removed once.
    """

    async def families(self, *, after: int = 0, limit: int = 200) -> Sequence[Family]:
        """List families whose root has a higher number than ``after``, in order."""
        ...

    async def kin(self, root: int, *, before: int, limit: int = MAX_MEMBERS) -> Family:
        """Return a family with other descendants: those below the number ``before``,
        without its root."""
        ...

    async def own_durations(self) -> Sequence[str]:
        """Return the durations that playbooks have of their own."""
        ...

    async def rows(
        self, execution_id: str, *, after: int, limit: int
    ) -> Sequence[LogRow]:
        """Return the rows that follow a position, as they are stored."""
        ...

    async def take_turn(
        self, owner: str, *, now: float, ttl: float
    ) -> Removal | Refused | None:
        """Take the turn, or extend it; return the removal that is planned, if any."""
        ...

    async def plan(self, owner: str, removal: Removal | None) -> None:
        """Replace the plan. Raises ``StoreError`` (``store.conflict``) if another owner
        has the turn."""
        ...

    async def carry_out(self, owner: str, removal: Removal) -> None:
        """Remove the executions as a whole, with all that the store has of them: all or
        nothing. Nothing is done if they are gone already. The plan stays.

        Raises ``StoreError`` (``store.conflict``) if another owner has the turn, or an
        execution is unfinished or has a fork.
        """
        ...

    async def free_space(self) -> int:
        """Give space of removed executions back to the file system where that takes
        little time; return how many files or parts were freed. It is called again as
        long as it returns some."""
        ...


class Damaged(StoreError):
    """An execution cannot be copied, since what is stored of it is damaged."""

    def __init__(self, execution_id: str, error: StoreError) -> None:
        super().__init__(str(error), error.kind)
        self.execution_id = execution_id


class Archive(Protocol):
    """Copies of executions that are removed, outside of the store."""

    async def keep(self, removal: Removal) -> None:
        """Copy the executions, with all that is needed to restore them; complete when
        this returns. Again under the same name replaces the copy. Raises ``Damaged``,
        or another ``StoreError`` if the archive cannot be written."""
        ...

    async def discard(self, removal: Removal) -> None:
        """Remove the copy of a removal that did not take place."""
        ...
