"""Events of tasks: tool calls, waits for times, signals, children and events."""

from typing import Literal, NotRequired

from noetl.engine.events.envelope import EventType
from noetl.engine.events.parts import (
    Directive,
    Judged,
    Payload,
    Problem,
    Refusal,
    Timer,
    Values,
)
from noetl.types import JSON


class TaskStarted(Payload):
    """A tool call begins."""

    in_doubt: NotRequired[int]
    """Number of owners that were lost after they had started this attempt."""


class TaskDone(Judged):
    """A tool call has ended: its outcome, and the directive that follows."""

    outcome: Values
    """`{status, result, error, meta}` and the kind's helper."""
    directive: Directive
    """`{do, rule}`: the verdict, and the position of the rule that gave it (null: the
    default). `next`: the label that follows; `to`, `attempts`, `delay` where they
    apply."""
    set_iter: NotRequired[Values]
    """The patch of `iter`, rendered."""
    set_ctx: NotRequired[Values]
    """The patch of `ctx`, rendered."""
    error: NotRequired[Problem]
    """Error of the pipeline, if it failed."""
    ignored: NotRequired[bool]
    """True: the outcome is an error that no rule matched, and the pipeline went on."""
    refused: NotRequired[Refusal]
    """`{key, by}`: this patch of `ctx` was not applied, because another iteration had
    written the key."""


class TaskSuspended(Payload):
    """The pipeline waits and holds no worker."""

    on: Literal["delay", "limit", "timer", "signal", "playbook", "event"]
    """The kind of wait: delay, limit (of calls), timer, signal, playbook or event."""
    until: str | None
    """The time at which the wait ends without an answer, or null."""
    at: NotRequired[str]
    """The time of day that ends the wait."""
    zone: NotRequired[str]
    """The time zone of `at`."""
    signal: NotRequired[str]
    """The signal's name."""
    schema: NotRequired[JSON]
    """The JSON Schema that the signal's data must fit."""
    roles: NotRequired[list[str]]
    """Roles of which the sender of the signal needs one."""
    child: NotRequired[Values]
    """`{execution_id, path, version, args, iter}` of the playbook."""
    timers: NotRequired[list[Timer]]
    """`{id, at}` of each timer of a choice, the next one first."""


class TaskResumed(Payload):
    """The event that the pipeline waited for has occurred."""

    answer: Values
    """The signal's `data`; the child's `status`, `result`, `error`, and `warnings` of
    its inputs; or the `event` that guards accepted, and their names (`matched`)."""
    message: NotRequired[int]
    """`seq` of the signal's `message.received`."""
    missed: NotRequired[int]
    """Number of missed events that were offered with it."""
    inherited: NotRequired[list[str]]
    """In a fork: keys in `answer` that the origin could read."""


class MessageReceived(Payload):
    """A signal arrived. The first pipeline that waits for it takes it."""

    name: str
    """The signal's name."""
    data: JSON
    """The signal's data."""
    by: NotRequired[Values]
    """`{name, roles}` of the account that sent it to a server."""
    caller: NotRequired[Values]
    """`{principal, address}` of the account that sent it to a server."""


TASK_STARTED = EventType("task.started", TaskStarted, "task", "worker", "in_progress")
TASK_DONE = EventType(
    "task.done",
    TaskDone,
    "task",
    "worker",
    "success",
    statuses=("success", "error", "skipped"),
)
TASK_SUSPENDED = EventType("task.suspended", TaskSuspended, "task", "worker", "paused")
TASK_RESUMED = EventType("task.resumed", TaskResumed, "task", "server", "in_progress")
MESSAGE_RECEIVED = EventType(
    "message.received", MessageReceived, "workflow", "server", "success"
)
