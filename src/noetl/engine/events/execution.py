"""Events of an execution: requested, started, finished; cancelled, paused, forked."""

from typing import NotRequired, TypedDict

from noetl.engine.events.envelope import ENDS, EventType
from noetl.engine.events.parts import (
    About,
    EndStatus,
    NewToken,
    Payload,
    Position,
    Problem,
    PutBack,
    StepShape,
    Values,
)
from noetl.types import JSON


class ExecutionRequested(Payload):
    """An execution was requested: the first event of every log."""

    playbook: About
    """`{name, path, version, sha256, source, folder}`: the playbook and its text;
    `sensitive`, if its data are; `retention`, if it has one of its own."""
    trace_id: str
    """W3C trace id: its own, or that of its caller."""
    trace_parent: NotRequired[str]
    """W3C span id of the caller: of the calling execution, or of a request with a
    `traceparent`. Absent if there is none."""
    parent: NotRequired[Values]
    """`{execution_id, command_id, depth, iter, root}` of the calling execution; `root`
    is the execution that none called, absent in logs of earlier versions."""
    fork: NotRequired[Values]
    """`{execution_id, seq, started_at, depth, iter, inherited, trace_id, undone}`: the
    origin of a fork, the last event taken from it, and when its work began; `inherited`
    are the keys of `iter` that the origin could read, `trace_id` is its trace;
    `undone`, in a retry: the events of the origin that do not count, `{last, runs,
    events, keep}`."""
    caller: NotRequired[Values]
    """`{principal, address, idempotency_key, sha256, trigger}`: the account that sent
    the request to a server, its address, the key and the digest of the request;
    `trigger`, if one sent it: `{name, slot, chain}`."""
    initiator: NotRequired[Values]
    """`{principal, user_id, scopes}`: the account whose rights the execution has, and
    the scopes of the token that was used. A child has the account of its parent, an
    execution of a trigger that of the trigger's owner; an execution of `noetl run` has
    none."""
    labels: NotRequired[dict[str, str]]
    """Labels of the playbook and of the request. Absent if there are none."""


class RequestEvaluated(Payload):
    """The playbook was resolved and validated, or the request was refused."""

    playbook: About
    """As in `playbook.execution.requested`."""
    extensions: NotRequired[list[str]]
    """Enabled dialects. Absent if the request was refused."""
    error: NotRequired[Problem]
    """The reason of a refusal, with the diagnostics."""
    warnings: NotRequired[list[str]]
    """Messages about inputs that the playbook does not name, or that have another type
    than their default. Absent if there are none."""


class WorkflowStarted(Payload):
    """The first token was enqueued."""

    workload: Values
    """The merged workload; it does not change any more."""
    ctx: Values
    """Initial value of `ctx`."""
    token: NewToken
    """`{token_id, step, args}`: the first token."""
    deadline: str | None
    """The time at which the execution is cancelled, or null; null while it is
    queued."""
    concurrency: NotRequired[Values]
    """`{key, limit, on_limit, of}`: the concurrency key of which the execution needs a
    slot; `of` is the playbook that owns the key."""


class WorkflowQueued(Payload):
    """The execution waits until its concurrency key has a free slot."""

    time_limit: float | None
    """Maximum duration in seconds after admission, or null."""


class WorkflowAdmitted(Payload):
    """The execution has a slot of its concurrency key, and continues."""

    deadline: str | None
    """The time at which the execution is cancelled, or null."""


class WorkflowFinished(Payload):
    """No token is left, or the execution was cancelled."""

    status: EndStatus
    """completed, failed or cancelled."""
    error: Problem | None
    """The first failure that no arc handled, or null."""
    result: JSON
    """Result of the last step that sent no token on."""
    reason: NotRequired[str]
    """Reason of a cancellation: `cancelled` or `timeout`."""
    not_reached: NotRequired[Values]
    """`{count, steps}`: steps that no token reached, because no arc fired before them;
    at most 100 of them by name."""


class PlaybookProcessed(Payload):
    """The execution has finished: the last event of every log."""

    status: EndStatus
    """As in `workflow.finished`."""


EXECUTION_REQUESTED = EventType(
    "playbook.execution.requested",
    ExecutionRequested,
    "playbook",
    "server",
    "in_progress",
)
REQUEST_EVALUATED = EventType(
    "playbook.request.evaluated",
    RequestEvaluated,
    "playbook",
    "server",
    "success",
    statuses=ENDS,
)
WORKFLOW_STARTED = EventType(
    "workflow.started", WorkflowStarted, "workflow", "server", "in_progress"
)
WORKFLOW_QUEUED = EventType(
    "workflow.queued", WorkflowQueued, "workflow", "server", "paused"
)
WORKFLOW_ADMITTED = EventType(
    "workflow.admitted", WorkflowAdmitted, "workflow", "server", "in_progress"
)
WORKFLOW_FINISHED = EventType(
    "workflow.finished",
    WorkflowFinished,
    "workflow",
    "server",
    "success",
    statuses=ENDS,
)
PLAYBOOK_PROCESSED = EventType(
    "playbook.processed",
    PlaybookProcessed,
    "playbook",
    "server",
    "success",
    statuses=ENDS,
)


class WorkflowCancelled(Payload):
    """The execution is being cancelled: nothing new starts, and running calls stop."""

    kind: str
    """`cancelled`, `timeout` or `limit.exceeded`."""
    message: str
    """The reason, as a sentence."""
    retryable: NotRequired[bool]
    """Always false."""
    details: NotRequired[Values]
    """Always empty."""
    superseded_by: NotRequired[str]
    """The execution with the same concurrency key that replaces this one."""
    caller: NotRequired[Values]
    """`{principal, address}` of the account that sent the request to a server."""


class WorkflowPaused(Payload):
    """The execution is paused: nothing new starts."""

    caller: NotRequired[Values]
    """`{principal, address}` of the account that sent the request to a server."""


class WorkflowResumed(Payload):
    """The execution continues after a pause."""

    deadlines: dict[str, str]
    """New deadlines, by execution or step run: a pause does not count."""
    caller: NotRequired[Values]
    """`{principal, address}` of the account that sent the request to a server."""


_Origin = TypedDict("_Origin", {"from": Position})
"""`{execution_id, seq}`: the events up to here belong to that execution."""


class WorkflowForked(Payload, _Origin):
    """The events before belong to another execution; from here the fork continues
    alone."""

    deadline: str | None
    """The time at which the fork is cancelled, or null."""
    deadlines: dict[str, str]
    """Deadlines of running step runs, by step run."""
    workload: NotRequired[Values]
    """The whole workload, if it was edited."""
    set_ctx: NotRequired[Values]
    """The patch of `ctx`."""
    again: NotRequired[list[PutBack]]
    """`{token_id, failed, step, args, event}` of each token that is put back, because
    the run or the gate `failed`: in logs of earlier versions."""
    playbook: NotRequired[About]
    """As in `playbook.execution.requested`. Present only for a newer playbook."""
    steps: NotRequired[dict[str, StepShape]]
    """`{has_arcs, first}` of the running steps, as the newer playbook defines them."""


WORKFLOW_CANCELLED = EventType(
    "workflow.cancelled", WorkflowCancelled, "workflow", "server", "in_progress"
)
WORKFLOW_PAUSED = EventType(
    "workflow.paused", WorkflowPaused, "workflow", "server", "paused"
)
WORKFLOW_RESUMED = EventType(
    "workflow.resumed", WorkflowResumed, "workflow", "server", "in_progress"
)
WORKFLOW_FORKED = EventType(
    "workflow.forked", WorkflowForked, "workflow", "server", "in_progress"
)
