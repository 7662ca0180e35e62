"""The events of the log: start reading here.

An execution is its log, a list of events. Each has the envelope ``Event``, a name and a
payload. ``EVENTS`` lists all of them. The ``EventType`` of an event has the side
that records it and the type of its payload; the docstring of that type describes when
the event is recorded, and those of its members describe their values:

==================  =====================================================
``execution``       an execution is requested, queued, started, finished;
                    cancelled, paused, resumed, forked
``steps``           tokens, step runs, arcs, loops and their iterations
``tasks``           tool calls, waits, and the signals that end waits
==================  =====================================================

The names and the keys of payloads are stored: they do not change, and new keys are
optional.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noetl.engine.events.envelope import (
    AnyPayload,
    Caller,
    Entity,
    Event,
    EventType,
    Source,
    Status,
    unattributed,
)
from noetl.engine.events.execution import (
    EXECUTION_REQUESTED,
    PLAYBOOK_PROCESSED,
    REQUEST_EVALUATED,
    WORKFLOW_ADMITTED,
    WORKFLOW_CANCELLED,
    WORKFLOW_FINISHED,
    WORKFLOW_FORKED,
    WORKFLOW_PAUSED,
    WORKFLOW_QUEUED,
    WORKFLOW_RESUMED,
    WORKFLOW_STARTED,
    ExecutionRequested,
    PlaybookProcessed,
    RequestEvaluated,
    WorkflowAdmitted,
    WorkflowCancelled,
    WorkflowFinished,
    WorkflowForked,
    WorkflowPaused,
    WorkflowQueued,
    WorkflowResumed,
    WorkflowStarted,
)
from noetl.engine.events.parts import (
    Admission,
    ArcAnswer,
    Directive,
    EndStatus,
    IterationError,
    Judged,
    KeptIterations,
    NewToken,
    Payload,
    Problem,
    PutBack,
    StepShape,
    Timer,
)
from noetl.engine.events.steps import (
    ITERATION_DONE,
    ITERATION_FAILED,
    ITERATION_STARTED,
    LOOP_DONE,
    LOOP_STARTED,
    NEXT_EVALUATED,
    STEP_DONE,
    STEP_FAILED,
    STEP_SCHEDULED,
    STEP_SKIPPED,
    STEP_STARTED,
    TOKEN_JOINED,
    Gated,
    IterationDone,
    IterationFailed,
    IterationStarted,
    LoopDone,
    LoopStarted,
    NextEvaluated,
    StepDone,
    StepFailed,
    StepScheduled,
    StepSkipped,
    StepStarted,
    TokenJoined,
)
from noetl.engine.events.tasks import (
    MESSAGE_RECEIVED,
    TASK_DONE,
    TASK_RESUMED,
    TASK_STARTED,
    TASK_SUSPENDED,
    MessageReceived,
    TaskDone,
    TaskResumed,
    TaskStarted,
    TaskSuspended,
)

EVENTS: Mapping[str, EventType[Any]] = {
    each.name: each
    for each in (
        EXECUTION_REQUESTED,
        REQUEST_EVALUATED,
        WORKFLOW_STARTED,
        WORKFLOW_QUEUED,
        WORKFLOW_ADMITTED,
        WORKFLOW_FORKED,
        STEP_SCHEDULED,
        STEP_SKIPPED,
        TOKEN_JOINED,
        STEP_STARTED,
        TASK_STARTED,
        TASK_DONE,
        TASK_SUSPENDED,
        TASK_RESUMED,
        STEP_DONE,
        STEP_FAILED,
        LOOP_STARTED,
        ITERATION_STARTED,
        ITERATION_DONE,
        ITERATION_FAILED,
        LOOP_DONE,
        NEXT_EVALUATED,
        MESSAGE_RECEIVED,
        WORKFLOW_CANCELLED,
        WORKFLOW_PAUSED,
        WORKFLOW_RESUMED,
        WORKFLOW_FINISHED,
        PLAYBOOK_PROCESSED,
    )
}
"""All events by their names, roughly in the order in which a log has them."""

NAMES = EVENTS.keys()

TRIGGERS = frozenset(
    {
        *("step.started", "step.done", "step.failed", "step.skipped"),
        *("task.started", "task.done"),
        *("loop.started", "loop.iteration.started", "loop.iteration.done"),
        *("loop.iteration.failed", "loop.done"),
    }
)
"""Events that the guards of a pipeline that waits for events are asked about, beside
signals and timers: those of other runs. Scheduling, routing and waiting are not among
them."""

__all__ = [
    "EVENTS",
    "EXECUTION_REQUESTED",
    "ITERATION_DONE",
    "ITERATION_FAILED",
    "ITERATION_STARTED",
    "LOOP_DONE",
    "LOOP_STARTED",
    "MESSAGE_RECEIVED",
    "NAMES",
    "NEXT_EVALUATED",
    "PLAYBOOK_PROCESSED",
    "REQUEST_EVALUATED",
    "STEP_DONE",
    "STEP_FAILED",
    "STEP_SCHEDULED",
    "STEP_SKIPPED",
    "STEP_STARTED",
    "TASK_DONE",
    "TASK_RESUMED",
    "TASK_STARTED",
    "TASK_SUSPENDED",
    "TOKEN_JOINED",
    "TRIGGERS",
    "WORKFLOW_ADMITTED",
    "WORKFLOW_CANCELLED",
    "WORKFLOW_FINISHED",
    "WORKFLOW_FORKED",
    "WORKFLOW_PAUSED",
    "WORKFLOW_QUEUED",
    "WORKFLOW_RESUMED",
    "WORKFLOW_STARTED",
    "Admission",
    "AnyPayload",
    "ArcAnswer",
    "Caller",
    "Directive",
    "EndStatus",
    "Entity",
    "Event",
    "EventType",
    "ExecutionRequested",
    "Gated",
    "IterationDone",
    "IterationError",
    "IterationFailed",
    "IterationStarted",
    "Judged",
    "KeptIterations",
    "LoopDone",
    "LoopStarted",
    "MessageReceived",
    "NewToken",
    "NextEvaluated",
    "Payload",
    "PlaybookProcessed",
    "Problem",
    "PutBack",
    "RequestEvaluated",
    "Source",
    "Status",
    "StepDone",
    "StepFailed",
    "StepScheduled",
    "StepShape",
    "StepSkipped",
    "StepStarted",
    "TaskDone",
    "TaskResumed",
    "TaskStarted",
    "TaskSuspended",
    "Timer",
    "TokenJoined",
    "WorkflowAdmitted",
    "WorkflowCancelled",
    "WorkflowFinished",
    "WorkflowForked",
    "WorkflowPaused",
    "WorkflowQueued",
    "WorkflowResumed",
    "WorkflowStarted",
    "unattributed",
]
