"""Request and answer types; the OpenAPI document is generated from them."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from noetl.dsl.diagnostics import Diagnostic
from noetl.dsl.input_form import InputForm
from noetl.dsl.labels import MAX_LABELS, MAX_VALUE, Labels
from noetl.engine.endings import IgnoredError, NoArcFired, UndefinedName
from noetl.engine.execution_document import StepLine
from noetl.engine.ids import EXECUTION_ID
from noetl.engine.state import ExecutionStatus
from noetl.engine.steps.concurrency import MAX_KEY_LENGTH, OnLimit
from noetl.engine.steps.concurrency import Limit as Places
from noetl.engine.waits.resume import WaitLine
from noetl.net.draw.picture import Picture
from noetl.net.finding import Finding
from noetl.types import JSON

# Text in PostgreSQL cannot hold NUL; a name has no control characters.
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
LabelText = Annotated[
    str, Meta(pattern=r"^[^=]+=.+(?!\n)$", max_length=63 + 1 + MAX_VALUE)
]
"""A label in a query: ``name=value``."""


class Strict(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """A request type that refuses unknown members."""


class StartConcurrency(Strict):
    """At most ``limit`` executions of the playbook with this key run at once."""

    key: Annotated[str, Meta(min_length=1, max_length=MAX_KEY_LENGTH)]
    limit: Places = 1
    on_limit: OnLimit = "queue"


class StartRequest(Strict):
    """One of ``path`` (with ``version``), ``playbook_id`` and ``playbook``.

    ``again`` is the latest execution of the idempotency key, which failed: it is run
    again.
    """

    path: Name | None = None
    version: Name | None = None
    playbook_id: Name | None = None
    playbook: Text | None = None
    workload: dict[str, JSON] = msgspec.field(default_factory=dict)
    args: dict[str, JSON] = msgspec.field(default_factory=dict)
    ctx: dict[str, JSON] = msgspec.field(default_factory=dict)
    idempotency_key: Key | None = None
    again: ExecutionId | None = None
    concurrency: StartConcurrency | None = None
    labels: Labels = msgspec.field(default_factory=dict)


class StartQuery(Strict):
    wait: Annotated[float, Meta(ge=0, le=60)] = 0.0


class StartAnswer(msgspec.Struct):
    """``result`` and ``error`` are set if the execution ended during the wait;
    ``warnings``, if the inputs are accepted and probably wrong; ``repeated``, if the
    execution was started before; ``superseded_by`` is the latest one of its key, if it
    was run again since."""

    execution_id: str
    status: ExecutionStatus
    result: JSON = None
    error: dict[str, JSON] | None = None
    warnings: list[str] = msgspec.field(default_factory=list)
    repeated: bool = False
    superseded_by: str | None = None


Statuses = Annotated[str, Meta(pattern=r"^[a-z]+(,[a-z]+){0,9}(?!\n)$")]
"""One status or several, separated by commas."""


class CountQuery(Strict):
    status: Statuses | None = None
    path: Name | None = None
    since: Moment | None = None
    until: Moment | None = None
    text: Name | None = None
    trigger: Name | None = None
    parent: ExecutionId | None = None
    roots: bool = False
    label: Annotated[list[LabelText], Meta(max_length=MAX_LABELS)] = msgspec.field(
        default_factory=list
    )


class ListQuery(CountQuery):
    caller: Name | None = None
    limit: Limit = 100
    cursor: ExecutionId | None = None
    waiting: bool = False


class ExecutionLine(msgspec.Struct):
    """A line of a listing.

    ``local`` is true for an execution of ``noetl run``, which is only shown;
    ``interrupted`` if its process is gone before its end.
    """

    execution_id: str
    status: ExecutionStatus
    playbook: dict[str, JSON]
    started_at: str
    finished_at: str | None
    duration_ms: float | None
    error: dict[str, JSON] | None
    parent_id: str | None
    concurrency: dict[str, JSON] | None
    ignored_errors: int
    not_reached: int
    labels: dict[str, str]
    trigger: dict[str, JSON] | None
    waits: list[WaitLine] | UnsetType = UNSET
    local: bool | UnsetType = UNSET
    interrupted: bool | UnsetType = UNSET


class ExecutionList(msgspec.Struct):
    executions: list[ExecutionLine]
    cursor: str | None


class HourLine(msgspec.Struct):
    at: str
    counts: dict[str, int]


class ExecutionCounts(msgspec.Struct):
    """``hours`` are those in which executions began, the newest first; ``complete`` is
    false if there are more executions than the ``scanned`` ones."""

    by_status: dict[str, int]
    hours: list[HourLine]
    scanned: int
    complete: bool


class ExecutionDocument(msgspec.Struct):
    """The document that ``noetl run --json`` prints."""

    execution_id: str
    status: ExecutionStatus
    playbook: dict[str, JSON]
    labels: dict[str, str]
    concurrency: dict[str, JSON] | None
    error: dict[str, JSON] | None
    warnings: list[str]
    workload: dict[str, JSON]
    ctx: dict[str, JSON]
    result: JSON
    steps: list[StepLine]
    ignored_errors: list[IgnoredError]
    no_arc_fired: list[NoArcFired]
    not_reached: list[str]
    undefined_names: list[UndefinedName]
    counts: dict[str, int]
    waits: list[WaitLine]
    events: int
    started_at: str
    duration_ms: float | None


class EventsQuery(Strict):
    """``dialect`` is a view of the log; ``find`` is a text that events contain; every
    parameter after it filters by an id."""

    after: Seq = 0
    before: Annotated[int, Meta(ge=1, le=2**31 - 1)] | None = None
    limit: Limit = 500
    dialect: Literal["000", "001", "003"] = "001"
    find: Annotated[str, Meta(min_length=1, max_length=200)] | None = None
    status: Literal["in_progress", "success", "error", "paused", "skipped"] | None = (
        None
    )
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
        for key in ("after", "before", "limit", "dialect", "find"):
            del members[key]
        return {key: str(value) for key, value in members.items() if value is not None}


class EventList(msgspec.Struct):
    """``cursor`` is the next value of ``after``, or of ``before`` if that was given;
    null at the end."""

    events: list[dict[str, JSON]]
    cursor: int | None


class VarsDocument(msgspec.Struct):
    """The transient variables of an execution."""

    execution_id: str
    vars: dict[str, JSON]


class StateQuery(Strict):
    at: Annotated[int, Meta(ge=1, le=2**31 - 1)] | None = None
    parts: Annotated[str, Meta(max_length=40)] | None = None


class StateDocument(msgspec.Struct):
    """``totals`` counts the items of each part, if parts were requested."""

    execution_id: str
    status: ExecutionStatus
    seq: int
    ctx: dict[str, JSON] | UnsetType = UNSET
    tokens: dict[str, JSON] | UnsetType = UNSET
    runs: dict[str, JSON] | UnsetType = UNSET
    loops: dict[str, JSON] | UnsetType = UNSET
    totals: dict[str, int] | UnsetType = UNSET


class ControlAnswer(msgspec.Struct):
    execution_id: str
    status: ExecutionStatus


class SignalRequest(Strict):
    name: Name
    data: JSON = None


class BulkRequest(Strict):
    """An order to the executions ``ids``, or to all that match; at least one filter is
    required.

    The filters are those of the list of executions.
    """

    action: Literal["cancel", "pause", "resume", "retry"]
    ids: Annotated[list[ExecutionId], Meta(min_length=1, max_length=1000)] | None = None
    status: Statuses | None = None
    path: Name | None = None
    text: Name | None = None
    trigger: Name | None = None
    caller: Name | None = None
    parent: ExecutionId | None = None
    roots: bool = False
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    since: Annotated[datetime, Meta(tz=True)] | None = None
    until: Annotated[datetime, Meta(tz=True)] | None = None
    limit: Limit = 100
    dry_run: bool = False


class BulkLine(msgspec.Struct):
    """An execution; ``retried_as`` is the new one of a retry, ``reason`` why it was
    refused."""

    execution_id: str
    status: ExecutionStatus
    retried_as: str | None = None
    reason: str | None = None


class BulkAnswer(msgspec.Struct):
    """``refused`` are executions that the order does not fit; ``more`` asks for another
    call. ``count`` is the number of ``done``, and ``first`` has lines of the first ones
    of a dry run."""

    done: list[BulkLine]
    refused: list[BulkLine]
    more: bool
    count: int
    first: list[ExecutionLine]


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
    """``created`` is false if this playbook was already registered."""

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
    """``diff`` is empty if the texts are equal."""

    path: str
    diff: str


class ValidateRequest(Strict):
    """``verify`` asks for findings about the net, ``graph`` for its drawing, ``form``
    for the form of the inputs."""

    playbook: str
    strict: bool = False
    verify: bool = False
    graph: bool = False
    form: bool = False


class ValidateAnswer(msgspec.Struct, omit_defaults=True):
    """``findings``, ``graph`` and ``form`` are there if they were asked for and the
    playbook is valid."""

    valid: bool
    diagnostics: list[Diagnostic]
    findings: list[Finding] | UnsetType = UNSET
    graph: Picture | UnsetType = UNSET
    form: InputForm | UnsetType = UNSET


class Health(msgspec.Struct):
    """``isolation`` states how code of playbooks is isolated."""

    status: Literal["ok", "ready", "unavailable"]
    reason: str | None = None
    isolation: Literal["sandbox", "refused", "off", "none"] | None = None
