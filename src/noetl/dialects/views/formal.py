"""The 000 view: formal names, ``entity`` and ``data``, tokens as events (C-07)."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from noetl.engine.events import Event
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
            for token in event.payload["tokens"]:
                yield _token(event, "TokenClaimed", token, event.step)
        document: dict[str, JSON] = msgspec.to_builtins(event)
        document["name"] = NAMES[event.name]
        document["entity"] = document.pop("entity_type")
        document["data"] = document.pop("payload")
        yield document
        if event.name == "workflow.started":
            token = event.payload["token"]
            yield _token(event, "TokenEnqueued", token["token_id"], token["step"])
        elif event.name == "next.evaluated":
            for token in event.payload["fired"]:
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
