"""Triggers and backfills as they are kept; the database decides between servers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from noetl.access.initiators import Initiator
from noetl.triggers.definition import Definition
from noetl.triggers.due import Due
from noetl.triggers.filling import Progress, State


class Trigger(msgspec.Struct, frozen=True, kw_only=True):
    """``credential`` is what proves a sender: a digest, or a secret that is sealed.

    Of a schedule: up to ``cursor`` everything is decided, ``pending`` is decided and
    not started yet, and ``next_at`` is when there is more to decide. ``revision`` grows
    with every change. ``owner`` is the account whose rights its executions have: the
    one that made it or replaced it last.
    """

    definition: Definition
    created_at: float
    created_by: str
    credential: str | None = None
    paused: bool = False
    cursor: float = 0.0
    next_at: float | None = None
    pending: tuple[float, ...] = ()
    last_slot: float | None = None
    last_execution: str | None = None
    revision: int = 1
    owner: Initiator | None = None

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def initiator(self) -> Initiator:
        """Of its executions; a trigger of an older version knows a name only."""
        return self.owner or Initiator(self.created_by)


class Backfill(msgspec.Struct, frozen=True, kw_only=True):
    """The slots of a range, run ``at_once`` at most."""

    backfill_id: str
    trigger: str
    since: float
    until: float
    at_once: int
    total: int
    progress: Progress
    created_at: float
    created_by: str
    state: State = "running"
    revision: int = 1


class Triggers(Protocol):
    """What changes a trigger or a backfill names the revision that it was decided on;
    if another server was faster, nothing is changed and the answer is False."""

    async def add(self, trigger: Trigger) -> bool:
        """Keep it; False if there is one of that name."""
        ...

    async def get(self, name: str) -> Trigger | None: ...

    async def list_all(self) -> Sequence[Trigger]:
        """By their names."""
        ...

    async def replace(self, trigger: Trigger, revision: int) -> bool:
        """Another definition, or paused or not, and from where it is decided."""
        ...

    async def remove(self, name: str) -> bool:
        """With its backfills; False if there is none."""
        ...

    async def hearing(self) -> Sequence[Trigger]:
        """Those that listen for the ends of executions, and are not paused."""
        ...

    async def due(self, now: float) -> Sequence[Trigger]:
        """Schedules with something to decide, or to start."""
        ...

    async def plan(self, name: str, revision: int, due: Due) -> bool:
        """Decide: the slots are pending now, whoever starts them."""
        ...

    async def settle(
        self, name: str, revision: int, slot: float, execution_id: str
    ) -> bool:
        """Everything that was pending has an execution; this is the last one."""
        ...

    async def add_backfill(self, backfill: Backfill) -> bool:
        """False if its trigger is gone."""
        ...

    async def get_backfill(self, backfill_id: str) -> Backfill | None: ...

    async def list_backfills(self, trigger: str | None = None) -> Sequence[Backfill]:
        """The newest first."""
        ...

    async def open_backfills(self) -> Sequence[Backfill]:
        """Those that run, or have executions that do."""
        ...

    async def move(
        self, backfill_id: str, revision: int, state: State, progress: Progress
    ) -> bool: ...
