"""Facts: what the log holds, one envelope for all of them."""

from __future__ import annotations

from typing import Literal

import msgspec

from noetl.types import JSON

Source = Literal["server", "worker"]
Status = Literal["in_progress", "success", "error", "paused", "skipped"]
Entity = Literal["playbook", "workflow", "step", "task", "loop", "next"]


class Event(msgspec.Struct, frozen=True):
    """A fact that has happened.

    Whatever could differ on a second run (time, ids, rendered templates) is stored
    here by whoever decided it, so that folding the log asks nobody.
    """

    event_id: str
    execution_id: str
    seq: int
    timestamp: str
    source: Source
    name: str
    entity_type: Entity
    entity_id: str
    parent_id: str | None
    status: Status
    step: str | None = None
    step_run_id: str | None = None
    iteration_id: str | None = None
    task_run_id: str | None = None
    task_label: str | None = None
    attempt: int | None = None
    action_id: str | None = None
    payload: dict[str, JSON] = msgspec.field(default_factory=dict)


class Kind(msgspec.Struct, frozen=True):
    """What is the same for every event of a name."""

    entity: Entity
    source: Source
    status: Status
    doc: str


NAMES: dict[str, Kind] = {
    "playbook.execution.requested": Kind(
        "playbook", "server", "in_progress", "Somebody asked for an execution."
    ),
    "playbook.request.evaluated": Kind(
        "playbook", "server", "success", "The playbook was resolved and validated."
    ),
    "workflow.started": Kind(
        "workflow", "server", "in_progress", "The first token was enqueued."
    ),
    "workflow.queued": Kind(
        "workflow", "server", "paused", "It waits for a place of its concurrency key."
    ),
    "workflow.admitted": Kind("workflow", "server", "in_progress", "It has a place."),
    "workflow.forked": Kind(
        "workflow",
        "server",
        "in_progress",
        "The events before are another execution's; from here it goes its own way.",
    ),
    "step.scheduled": Kind("step", "server", "in_progress", "A token was admitted."),
    "step.skipped": Kind("step", "server", "skipped", "A token was denied."),
    "token.joined": Kind("step", "server", "in_progress", "A token waits at a join."),
    "step.started": Kind("step", "worker", "in_progress", "A worker took the run."),
    "task.started": Kind("task", "worker", "in_progress", "A tool call begins."),
    "task.done": Kind("task", "worker", "success", "The call's outcome and verdict."),
    "task.suspended": Kind(
        "task", "worker", "paused", "The pipeline waits and holds no worker."
    ),
    "task.resumed": Kind(
        "task", "server", "in_progress", "What the pipeline waited for has come."
    ),
    "step.done": Kind("step", "worker", "success", "The pipeline succeeded."),
    "step.failed": Kind("step", "worker", "error", "The pipeline failed."),
    "loop.started": Kind("loop", "server", "in_progress", "The collection is fixed."),
    "loop.iteration.started": Kind(
        "loop", "server", "in_progress", "An iteration was scheduled."
    ),
    "loop.iteration.done": Kind("loop", "worker", "success", "An iteration succeeded."),
    "loop.iteration.failed": Kind("loop", "worker", "error", "An iteration failed."),
    "loop.done": Kind("loop", "server", "success", "Every iteration has ended."),
    "next.evaluated": Kind(
        "next", "server", "success", "The arcs were judged; these tokens go on."
    ),
    "message.received": Kind(
        "workflow", "server", "success", "A signal came, for whoever waits for it."
    ),
    "workflow.cancelled": Kind(
        "workflow", "server", "in_progress", "Nothing new starts; what runs is stopped."
    ),
    "workflow.paused": Kind("workflow", "server", "paused", "Nothing new starts."),
    "workflow.resumed": Kind("workflow", "server", "in_progress", "It goes on."),
    "workflow.finished": Kind(
        "workflow", "server", "success", "No token is left, or it was cancelled."
    ),
    "playbook.processed": Kind("playbook", "server", "success", "The last event."),
}


TRIGGERS = frozenset(
    {
        *("step.started", "step.done", "step.failed", "step.skipped"),
        *("task.started", "task.done"),
        *("loop.started", "loop.iteration.started", "loop.iteration.done"),
        *("loop.iteration.failed", "loop.done"),
    }
)
"""What a pipeline that waits for events is asked about, beside signals and timers:
what happens in other runs. Scheduling, routing and waiting are not news."""


def view(event: Event) -> dict[str, JSON]:
    """A boundary event as templates see it, with the names of all dialects (C-05)."""
    return {
        "name": event.name,
        "event_type": event.name,
        "status": event.status,
        "entity_type": event.entity_type,
        "entity": event.entity_type,
        "entity_id": event.entity_id,
        "step": event.step,
        "step_run_id": event.step_run_id,
        "timestamp": event.timestamp,
        "payload": event.payload,
        "data": event.payload,
    }
