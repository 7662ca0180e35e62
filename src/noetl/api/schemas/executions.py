"""What requests hold and answers look like; the OpenAPI document is made of these."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from noetl.dsl.diagnostics import Diagnostic
from noetl.engine.concurrency import LONGEST, OnLimit
from noetl.engine.concurrency import Limit as Places
from noetl.engine.document import StepLine
from noetl.engine.ids import EXECUTION_ID
from noetl.engine.state import ExecutionStatus
from noetl.engine.waits import WaitLine
from noetl.types import JSON

# Text of a database has no NUL, and a name no control characters.
Name = Annotated[
    str, Meta(min_length=1, max_length=255, pattern=r"^[^\x00-\x1f]+(?!\n)$")
]
Key = Annotated[
    str, Meta(min_length=1, max_length=255, pattern=r"^[\x21-\x7e]+(?!\n)$")
]
ExecutionId = Annotated[str, Meta(pattern=rf"^{EXECUTION_ID}(?!\n)$")]
Limit = Annotated[int, Meta(ge=1, le=1000)]
Seq = Annotated[int, Meta(ge=0, le=2**31 - 1)]
Text = Annotated[str, Meta(min_length=1)]
Moment = Annotated[datetime, Meta(tz=True)]


class Strict(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A member that is not known is refused: it was meant to do something."""


class StartConcurrency(Strict):
    """At most ``limit`` executions of the playbook with this key are under way."""

    key: Annotated[str, Meta(min_length=1, max_length=LONGEST)]
    limit: Places = 1
    on_limit: OnLimit = "queue"


class StartRequest(Strict):
    """One of ``path`` (with ``version``), ``playbook_id`` and ``playbook``."""

    path: Name | None = None
    version: Name | None = None
    playbook_id: Name | None = None
    playbook: Text | None = None
    workload: dict[str, JSON] = msgspec.field(default_factory=dict)
    args: dict[str, JSON] = msgspec.field(default_factory=dict)
    ctx: dict[str, JSON] = msgspec.field(default_factory=dict)
    idempotency_key: Key | None = None
    concurrency: StartConcurrency | None = None


class StartQuery(Strict):
    wait: Annotated[float, Meta(ge=0, le=60)] = 0.0


class StartAnswer(msgspec.Struct):
    """``result`` and ``error`` are there if the execution ended while it was waited
    for."""

    execution_id: str
    status: ExecutionStatus
    result: JSON = None
    error: dict[str, JSON] | None = None


class ListQuery(Strict):
    status: ExecutionStatus | None = None
    path: Name | None = None
    since: Moment | None = None
    limit: Limit = 100
    cursor: ExecutionId | None = None
    waiting: bool = False


class ExecutionLine(msgspec.Struct):
    execution_id: str
    status: ExecutionStatus
    playbook: dict[str, JSON]
    started_at: str
    finished_at: str | None
    duration_ms: float | None
    error: dict[str, JSON] | None
    parent_id: str | None
    concurrency: dict[str, JSON] | None
    waits: list[WaitLine] | UnsetType = UNSET


class ExecutionList(msgspec.Struct):
    executions: list[ExecutionLine]
    cursor: str | None


class ExecutionDocument(msgspec.Struct):
    """What ``noetl run --json`` prints."""

    execution_id: str
    status: ExecutionStatus
    playbook: dict[str, JSON]
    concurrency: dict[str, JSON] | None
    error: dict[str, JSON] | None
    workload: dict[str, JSON]
    ctx: dict[str, JSON]
    result: JSON
    steps: list[StepLine]
    waits: list[WaitLine]
    events: int
    started_at: str
    duration_ms: float | None


class EventsQuery(Strict):
    """``dialect`` is a view of the log; every other parameter asks for an id."""

    after: Seq = 0
    limit: Limit = 500
    dialect: Literal["000", "001", "003"] = "001"
    name: Name | None = None
    event_type: Name | None = None
    event_id: Name | None = None
    step: Name | None = None
    step_run_id: Name | None = None
    iteration_id: Name | None = None
    task_run_id: Name | None = None
    tool_run_id: Name | None = None
    task_label: Name | None = None
    action_id: Name | None = None
    attempt: Seq | None = None
    iteration: Seq | None = None
    page: Seq | None = None
    entity_type: Name | None = None
    entity_id: Name | None = None
    parent_id: Name | None = None
    workflow_run_id: Name | None = None

    def wanted(self) -> dict[str, str]:
        members = msgspec.structs.asdict(self)
        for key in ("after", "limit", "dialect"):
            del members[key]
        return {key: str(value) for key, value in members.items() if value is not None}


class EventList(msgspec.Struct):
    """``cursor`` is what ``after`` takes for the next page; null at the end."""

    events: list[dict[str, JSON]]
    cursor: int | None


class VarsDocument(msgspec.Struct):
    """The transient variables of an execution."""

    execution_id: str
    vars: dict[str, JSON]


class StateQuery(Strict):
    at: Annotated[int, Meta(ge=1, le=2**31 - 1)] | None = None


class StateDocument(msgspec.Struct):
    execution_id: str
    status: ExecutionStatus
    seq: int
    ctx: dict[str, JSON]
    tokens: dict[str, JSON]
    runs: dict[str, JSON]
    loops: dict[str, JSON]


class ControlAnswer(msgspec.Struct):
    execution_id: str
    status: ExecutionStatus


class SignalRequest(Strict):
    name: Name
    data: JSON = None


class BulkRequest(Strict):
    """An order to all executions that fit; at least one of the filters is needed."""

    action: Literal["cancel", "pause", "resume"]
    status: ExecutionStatus | None = None
    path: Name | None = None
    since: Annotated[datetime, Meta(tz=True)] | None = None
    limit: Limit = 100


class BulkAnswer(msgspec.Struct):
    """``refused`` are those whose state does not fit; ``more`` are left for another
    call."""

    done: list[ControlAnswer]
    refused: list[ControlAnswer]
    more: bool


class RegisterRequest(Strict):
    playbook: Text


class PlaybookLine(msgspec.Struct):
    playbook_id: str
    path: str
    version: str
    name: str
    sha256: str
    registered_at: str
    registered_by: str | None
    extensions: list[str]


class PlaybookDocument(PlaybookLine):
    source: str


class Registration(PlaybookLine):
    """``created`` is false if this playbook was registered so before."""

    created: bool
    diagnostics: list[Diagnostic]


class CatalogQuery(Strict):
    prefix: Name | UnsetType = UNSET
    limit: Limit = 100
    cursor: Name | UnsetType = UNSET


class PlaybookList(msgspec.Struct):
    playbooks: list[PlaybookLine]
    cursor: str | None


class VersionQuery(Strict):
    version: Name | None = None


class VersionList(msgspec.Struct):
    versions: list[PlaybookLine]


class DiffQuery(Strict):
    before: Name | None = msgspec.field(default=None, name="from")
    after: Name | None = msgspec.field(default=None, name="to")


class DiffAnswer(msgspec.Struct):
    """``diff`` is empty if they are the same text."""

    path: str
    diff: str


class ValidateRequest(Strict):
    playbook: str
    strict: bool = False


class ValidateAnswer(msgspec.Struct):
    valid: bool
    diagnostics: list[Diagnostic]


class Health(msgspec.Struct):
    """``isolation``: whether code of playbooks runs in a sandbox."""

    status: Literal["ok", "ready", "unavailable"]
    reason: str | None = None
    isolation: Literal["sandbox", "refused", "off", "none"] | None = None
