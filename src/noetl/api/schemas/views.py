"""Answers of the views: what a page shows of an execution."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from noetl.api.schemas.executions import ExecutionLine, Name, Strict
from noetl.report.loop_lines import Bucket, ErrorGroup
from noetl.report.page_data import Reason
from noetl.types import JSON

StepLook = Literal[
    "idle",
    "ready",
    "running",
    "waiting",
    "done",
    "partial",
    "failed",
    "cancelled",
    "skipped",
    "not_reached",
]
Right = Literal[
    "cancel", "pause", "resume", "signal", "retry", "fork", "logs", "payloads"
]
Position = Annotated[int, Meta(ge=1, le=2**31 - 1)]
PageNumber = Annotated[int, Meta(ge=0, le=200_000)]


class LoopCounts(msgspec.Struct):
    """Iterations of all loops of a step; ``done`` includes those that a retry kept."""

    total: int
    done: int
    failed: int
    in_flight: int


class StepCounts(msgspec.Struct):
    """Counts of a step over all of its runs; ``failed`` are also in ``runs``."""

    status: StepLook
    runs: int
    ready: int
    running: int
    waiting: int
    done: int
    failed: int
    cancelled: int
    skipped: int
    retries: int
    ignored: int
    tokens: int
    loops: LoopCounts | None


class HeadWait(msgspec.Struct):
    """What the execution waits for: `name` is a signal, a playbook or a concurrency
    key, `detail` the child execution."""

    step: str | None
    task: str | None
    kind: Literal["signal", "timer", "child", "event", "place", "pause"]
    name: str | None
    until: str | None
    since: str | None
    detail: str | None
    run: str | None


class HeadFailure(msgspec.Struct):
    """The first failure that no arc handled; ``run`` is the id of its step run."""

    seq: int
    step: str | None
    task: str | None
    run: str | None
    attempt: int | None
    kind: str
    message: str


class Defect(msgspec.Struct):
    """Why the execution is quarantined, and the last event that could be read."""

    kind: str
    message: str
    seq: int


class ParentRun(msgspec.Struct):
    """The execution that called this one, and the step run that waits for it."""

    execution_id: str
    run: str | None


class ForkedFrom(msgspec.Struct):
    execution_id: str
    seq: int


class HeadPlaybook(msgspec.Struct):
    path: str | None
    version: str | None


class Head(msgspec.Struct):
    """``steps`` are those that the log names; ``may`` is what the caller can do now."""

    execution_id: str
    line: ExecutionLine
    last_seq: int
    ended: bool
    defect: Defect | None
    failure: HeadFailure | None
    steps: dict[str, StepCounts]
    waits: list[HeadWait]
    waits_total: int
    parent: ParentRun | None
    forked_from: ForkedFrom | None
    forks: list[str]
    children_total: int
    digest: str | None
    playbook: HeadPlaybook | None
    may: list[Right]


class TrackQuery(Strict):
    page: PageNumber = 0


class Opening(msgspec.Struct):
    """Counters of each step before the page, in the order of ``steps``."""

    steps: list[list[int]]


class Track(msgspec.Struct, rename={"first": "from"}):
    """Changes of counters by 10,000 events, as columns.

    `effects[op]` has what the change adds to each of the `counters` of its step, `n`
    times. `step`, `op` and `who` are positions in `steps`, `ops` and `names`; -1 is
    none. `ms` counts from `t0`. Rows of one event have the same `seq` and belong
    together. A page that is `complete` never changes.
    """

    page: int
    first: int
    to: int
    last_seq: int
    complete: bool
    t0: str
    counters: list[str]
    ops: list[str]
    effects: list[list[int]]
    steps: list[str]
    names: list[str]
    opening: Opening
    seq: list[int]
    ms: list[int]
    step: list[int]
    op: list[int]
    n: list[int]
    who: list[int]
    run: list[int]


RunStatus = Literal[
    "ready",
    "running",
    "waiting",
    "done",
    "partial",
    "failed",
    "cancelled",
    "skipped",
]
Cursor = Annotated[str, Meta(pattern=r"^[0-9]{1,9}-[0-9]{1,9}(?!\n)$")]


class RunsQuery(Strict):
    """``status`` may have several statuses, separated by commas."""

    step: Name | None = None
    status: Annotated[str, Meta(max_length=100)] | None = None
    cursor: Cursor | None = None
    limit: Annotated[int, Meta(ge=1, le=200)] = 200


class RunError(msgspec.Struct):
    kind: str
    message: str


class RunLoop(msgspec.Struct):
    """Iterations of the outermost loop of a run."""

    total: int
    done: int
    failed: int


class RunLine(msgspec.Struct):
    """A step run; or a denied token, with `number` -1 and the token's id.

    ``queue_ms`` is the time until its first task began, ``ms`` that from its begin to
    its end.
    """

    run: str
    number: int
    step: str
    status: RunStatus
    from_seq: int
    to_seq: int | None
    at: str
    ms: float | None
    queue_ms: float | None
    attempts: int
    ignored: int
    error: RunError | None
    loop: RunLoop | None


class RunList(msgspec.Struct):
    """``cursor`` is that of the next page, which an empty page may have, too."""

    runs: list[RunLine]
    cursor: str | None


class CallLine(msgspec.Struct):
    """An attempt of a task, with the rule that gave its directive.

    ``rule`` is the position of the rule among those of its task, ``line`` its line in
    the playbook. A value above 4 KiB is `{$cut: bytes, head}`.
    """

    task: str | None
    attempt: int | None
    task_run_id: str | None
    seq: int
    done_seq: int | None
    status: Literal["running", "waiting", "ok", "error", "skipped", "ignored"]
    at: str
    ms: float | None
    queue_ms: float | None
    outcome: str | None
    directive: str | None
    rule: int | None
    line: int | None
    guard: str | None
    note: str | None
    result: JSON
    error: JSON
    logs: JSON
    set_ctx: dict[str, JSON] | None
    set_iter: dict[str, JSON] | None
    waits: dict[str, JSON] | None
    child: str | None


class TaskLine(msgspec.Struct):
    task: str
    kind: str
    line: int


class RunDetails(msgspec.Struct):
    """A step run with its calls outside of iterations, the first and the last 50.

    ``admission`` and ``routing`` are the reasons of its begin and of its arcs;
    ``loop_errors`` counts the failed iterations by the kinds of their errors.
    """

    run: str
    number: int
    step: str
    status: RunStatus
    from_seq: int
    to_seq: int | None
    at: str
    ms: float | None
    queue_ms: float | None
    attempts: int
    ignored: int
    error: JSON
    loop: RunLoop | None
    args: dict[str, JSON] | None
    result: JSON
    admission: Reason | None
    routing: list[Reason]
    loop_errors: dict[str, int] | None
    calls: list[CallLine]
    calls_total: int
    tasks: list[TaskLine]


IterationStatus = Literal["running", "waiting", "done", "failed", "cancelled", "kept"]


class IterationsQuery(Strict):
    status: IterationStatus | None = None
    order: Literal["index", "time", "duration"] = "index"
    cursor: Annotated[int, Meta(ge=0, le=2**31 - 1)] = 0
    limit: Annotated[int, Meta(ge=1, le=200)] = 200


class IterationLine(msgspec.Struct):
    """One iteration: ``at_ms`` is its begin after that of the loop. An element above
    512 bytes is `{$cut: bytes, head}`."""

    index: int
    status: IterationStatus
    seq: int | None
    done_seq: int | None
    ms: int | None
    at_ms: int
    attempts: int
    value: JSON
    error: JSON


class IterationList(msgspec.Struct):
    """The progress of a loop and a page of its iterations.

    ``rate`` counts ends in a second during the last tenth of the time. ``buckets`` are
    spans of `bucket_ms`; empty ones are among them. ``errors`` are groups whose
    messages differ in numbers only. Without ``complete`` the log goes on: ask again.
    """

    run: str
    step: str
    total: int
    done: int
    kept: int
    failed: int
    in_flight: int
    ended: bool
    rate: float | None
    eta_ms: int | None
    bucket_ms: int
    buckets: list[Bucket]
    errors: list[ErrorGroup]
    complete: bool
    items: list[IterationLine]
    cursor: int | None


class WhyQuery(Strict):
    """Either the position of an event, or the name of a step."""

    seq: Position | None = None
    step: Name | None = None


class CtxQuery(Strict):
    """Changes from one event to another; ``cursor`` is the event at which a page
    begins."""

    first: Position | None = msgspec.field(default=None, name="from")
    to: Position | None = None
    cursor: Position | None = None


class CtxChange(msgspec.Struct):
    """A write to a key of ctx; ``refused`` says why it was not applied. A value above
    2 KiB is `{$cut: bytes, head}`."""

    seq: int
    step: str | None
    task: str | None
    iteration_id: str | None
    key: str
    new: bool
    before: JSON
    after: JSON
    refused: str | None


class CtxChanges(msgspec.Struct):
    """``cursor`` is that of the next page, which an empty page may have, too."""

    changes: list[CtxChange]
    cursor: int | None
