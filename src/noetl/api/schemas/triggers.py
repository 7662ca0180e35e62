"""Request and answer types of triggers and backfills."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta

from noetl.api.schemas.executions import ExecutionId, Key, Name, Strict
from noetl.triggers.backfill import MAX_AT_ONCE, State
from noetl.triggers.definition import Definition, Kind
from noetl.types import JSON

Secret = Annotated[str, Meta(min_length=1, max_length=1024)]


class MakeTrigger(Strict):
    """A trigger to create; ``secret`` is the signing secret, if the sender chose it."""

    trigger: Definition
    secret: Secret | None = None
    replace: bool = False


class TriggerLine(msgspec.Struct):
    """A trigger. ``hook`` is the path for a webhook's deliveries; ``next_at`` and
    ``last`` are the next slot of a schedule and the outcome of its last slot."""

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
    """A trigger that was created; ``token`` is shown once and not stored.
    ``warnings`` are about inputs that its playbook does not name."""

    created: bool
    token: str | None
    warnings: list[str] = msgspec.field(default_factory=list)


class TriggerList(msgspec.Struct):
    triggers: list[TriggerLine]


class FireRequest(Strict):
    """Inputs: ``slot`` of a schedule, ``payload`` of a webhook, ``execution_id`` of a
    completion trigger; ``key`` makes repeated calls idempotent. ``again`` is the latest
    execution of the slot or key, which failed: it is run again."""

    slot: Name | None = None
    key: Key | None = None
    payload: JSON = None
    execution_id: Name | None = None
    again: ExecutionId | None = None


class MakeBackfill(Strict):
    """A range; a day or time without an offset is in the schedule's zone. With
    ``failed``, slots whose latest execution failed run again."""

    trigger: Name
    since: Name
    until: Name | None = None
    at_once: Annotated[int, Meta(ge=1, le=MAX_AT_ONCE)] = 4
    failed: bool = False


class TriggerFilter(Strict):
    trigger: Name | None = None


class BackfillLine(msgspec.Struct):
    """A backfill; ``present`` slots already had an execution, ``running`` ones run
    now."""

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
