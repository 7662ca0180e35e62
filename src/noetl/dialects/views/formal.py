"""View 000: formal names, ``entity`` and ``data``, tokens as events (C-07)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime

import msgspec

from noetl.engine.events import Event, Gated, NextEvaluated, WorkflowStarted
from noetl.types import JSON

NAMES = {
    "playbook.execution.requested": "PlaybookExecutionRequested",
    "playbook.request.evaluated": "PlaybookRequestEvaluated",
    "workflow.started": "WorkflowStarted",
    "workflow.queued": "WorkflowQueued",
    "workflow.admitted": "WorkflowAdmitted",
    "workflow.forked": "WorkflowForked",
    "workflow.paused": "WorkflowPaused",
    "workflow.resumed": "WorkflowResumed",
    "workflow.cancelled": "WorkflowCancelled",
    "workflow.finished": "WorkflowFinished",
    "playbook.processed": "PlaybookProcessed",
    "step.scheduled": "StepScheduled",
    "step.skipped": "StepSkipped",
    "step.started": "StepStarted",
    "step.done": "StepDone",
    "step.failed": "StepFailed",
    "task.started": "TaskStarted",
    "task.done": "TaskProcessed",
    "task.suspended": "TaskSuspended",
    "task.resumed": "TaskResumed",
    "loop.started": "LoopStarted",
    "loop.iteration.started": "LoopIterationStarted",
    "loop.iteration.done": "LoopIterationCompleted",
    "loop.iteration.failed": "LoopIterationCompleted",
    "loop.done": "LoopDone",
    "next.evaluated": "NextEvaluated",
    "token.joined": "TokenJoined",
    "message.received": "MessageReceived",
}
"""Every name of the log, one to one; both ends of an iteration differ by status."""


class FormalView:
    def take(self, event: Event) -> Iterator[dict[str, JSON]]:
        if event.name in ("step.scheduled", "step.skipped"):
            gated: Gated = event.payload
            for name in gated["tokens"]:
                yield _token(event, "TokenClaimed", name, event.step)
        document: dict[str, JSON] = msgspec.to_builtins(event)
        document["name"] = NAMES[event.name]
        document["entity"] = document.pop("entity_type")
        document["data"] = document.pop("payload")
        yield document
        if event.name == "workflow.started":
            started: WorkflowStarted = event.payload
            token = started["token"]
            yield _token(event, "TokenEnqueued", token["token_id"], token["step"])
        elif event.name == "next.evaluated":
            routed: NextEvaluated = event.payload
            for token in routed["fired"]:
                yield _token(event, "TokenEnqueued", token["token_id"], token["step"])


def _token(event: Event, name: str, token: str, step: str | None) -> dict[str, JSON]:
    return {
        "event_id": f"{event.event_id}.{token}",
        "execution_id": event.execution_id,
        "seq": event.seq,
        "timestamp": event.timestamp,
        "source": "server",
        "name": name,
        "entity": "workflow",
        "entity_id": token,
        "status": "in_progress",
        "step": step,
        "data": {"token_id": token, "step": step},
    }


IDS = (
    *("event_id", "step", "step_run_id", "iteration_id", "task_run_id", "tool_run_id"),
    *("task_label", "action_id", "attempt", "iteration", "page", "entity_type"),
    *("entity_id", "parent_id", "workflow_run_id"),
)
"""Ids by which events can be filtered, in every view."""

NAMED = ("name", "event_type")
"""Keys of the event's name, in the selected view."""

_EPOCH = 1_577_836_800.0  # 2020
_PLACES = 64  # documents that one event becomes without a collision


def iteration_of(event: Event) -> int:
    """Return the index of the innermost loop; 0 outside."""
    _, mark, index = (event.iteration_id or "").rpartition("/")
    return int(index) if mark else 0


def page_of(event: Event) -> int:
    """Return how often the task was entered before, by a jump or a poll (S-60)."""
    _, mark, visit = (event.task_run_id or "").rpartition(".")
    return int(visit) - 1 if mark and visit.isdigit() else 0


def number_of(began: str, seq: int, place: int) -> str:
    """Return a number that grows with the log: start in milliseconds, position."""
    moment = datetime.fromisoformat(began).timestamp() - _EPOCH
    return str((max(int(moment * 1000), 0) << 22) + seq * _PLACES + place)


_DERIVED = {
    "tool_run_id": lambda event: event.task_run_id,
    "workflow_run_id": lambda event: event.execution_id,
    "iteration": iteration_of,
    "page": page_of,
}


def fits(event: Event, document: Mapping[str, JSON], wanted: Mapping[str, str]) -> bool:
    """Return whether a document of a view has all of the ids, compared as texts.

    Ids that the view does not show are compared with those of the event.
    """
    for name, value in wanted.items():
        if name in NAMED:
            found = document.get("event_type") or document.get("name")
        elif name in document:
            found = document[name]
        elif name in _DERIVED:
            found = _DERIVED[name](event)
        else:
            found = getattr(event, name)
        if found is None or str(found) != value:
            return False
    return True
