"""Stored triggers and backfills; the database decides between servers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from noetl.access.initiator import Initiator
from noetl.triggers.backfill import Progress, State
from noetl.triggers.definition import Definition
from noetl.triggers.slots import Due


class Trigger(msgspec.Struct, frozen=True, kw_only=True):
    """A trigger. ``credential`` authenticates a sender: a digest, or a sealed secret.

    For a schedule, slots up to ``cursor`` are decided, ``pending`` ones are decided and
    not started yet, and ``next_at`` is the time of the next decision. ``revision``
    grows with every change. ``owner`` is the account whose rights the executions have:
    the one that made the trigger or replaced it last.
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
        """Return the initiator of its executions; triggers of older versions have a
        name only."""
        return self.owner or Initiator(self.created_by)


class Backfill(msgspec.Struct, frozen=True, kw_only=True):
    """A backfill of the slots of a range, at most ``at_once`` at a time."""

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
    """Triggers and backfills. A change names the revision that it was decided on; if
    another server was faster, nothing changes and the result is False."""

    async def add(self, trigger: Trigger) -> bool:
        """Store the trigger; False if the name is taken."""
        ...

    async def get(self, name: str) -> Trigger | None: ...

    async def list_all(self) -> Sequence[Trigger]:
        """Return all triggers, ordered by name."""
        ...

    async def replace(self, trigger: Trigger, revision: int) -> bool:
        """Replace the definition, the paused flag and the cursor."""
        ...

    async def remove(self, name: str) -> bool:
        """Remove the trigger and its backfills; False if there is no such trigger."""
        ...

    async def on_finished(self) -> Sequence[Trigger]:
        """Return active triggers that fire at the end of executions."""
        ...

    async def due(self, now: float) -> Sequence[Trigger]:
        """Return schedules that have slots to decide or to start."""
        ...

    async def plan(self, name: str, revision: int, due: Due) -> bool:
        """Store the decided slots as pending."""
        ...

    async def settle(
        self, name: str, revision: int, slot: float, execution_id: str
    ) -> bool:
        """Record that all pending slots have executions; ``slot`` is the last one."""
        ...

    async def add_backfill(self, backfill: Backfill) -> bool:
        """Store the backfill; False if its trigger is gone."""
        ...

    async def get_backfill(self, backfill_id: str) -> Backfill | None: ...

    async def list_backfills(self, trigger: str | None = None) -> Sequence[Backfill]:
        """Return backfills, the newest first."""
        ...

    async def open_backfills(self) -> Sequence[Backfill]:
        """Return backfills that run or have running executions."""
        ...

    async def move(
        self, backfill_id: str, revision: int, state: State, progress: Progress
    ) -> bool: ...
