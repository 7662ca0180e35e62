"""What requests and answers about triggers and backfills hold."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from noetl.api.shapes import Key, Name, Strict
from noetl.triggers.definition import Definition, Kind
from noetl.triggers.filling import MOST_AT_ONCE, State
from noetl.types import JSON

Secret = Annotated[str, Meta(min_length=1, max_length=1024)]


class MakeTrigger(Strict):
    """``secret`` is the one that a sender signs with, if it has chosen it."""

    trigger: Definition
    secret: Secret | None = None
    replace: bool = False


class TriggerLine(msgspec.Struct):
    """``hook`` is where a webhook's deliveries go. ``next_at`` and ``last`` are a
    schedule's: its next slot, and what the last one became."""

    name: str
    kind: Kind
    playbook: str
    paused: bool
    definition: dict[str, JSON]
    hook: str | None
    next_at: str | None
    last: dict[str, JSON] | None
    created_at: str
    created_by: str
    owner: str


class TriggerAnswer(TriggerLine):
    """``token`` is told this once: it is kept nowhere."""

    created: bool
    token: str | None


class TriggerList(msgspec.Struct):
    triggers: list[TriggerLine]


class FireRequest(Strict):
    """Of a schedule ``slot``, of a webhook ``payload``, of ``finished`` the
    ``execution_id``; ``key`` makes a repeated call the same one."""

    slot: Name | None = None
    key: Key | None = None
    payload: JSON = None
    execution_id: Name | None = None


class MakeBackfill(Strict):
    """A day or a time; one without an offset is in the schedule's zone."""

    trigger: Name
    since: Name
    until: Name | None = None
    at_once: Annotated[int, Meta(ge=1, le=MOST_AT_ONCE)] = 4


class OfTrigger(Strict):
    trigger: Name | None = None


class BackfillLine(msgspec.Struct):
    """``present`` slots had an execution before; ``running`` are under way now."""

    backfill_id: str
    trigger: str
    state: State
    since: str
    until: str
    at_once: int
    total: int
    present: int
    started: int
    running: int
    completed: int
    failed: int
    left: int
    created_at: str
    created_by: str


class BackfillList(msgspec.Struct):
    backfills: list[BackfillLine]
