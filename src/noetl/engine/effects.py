"""Effects of recorded events: commands, timers and children that the host handles."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from noetl.engine.events import (
    Event,
    IterationStarted,
    StepScheduled,
    TaskSuspended,
    WorkflowAdmitted,
    WorkflowForked,
    WorkflowResumed,
    WorkflowStarted,
)
from noetl.engine.times import NEVER, seconds_of
from noetl.types import JSON

_BEGINS = frozenset({"workflow.started", "workflow.admitted"})
_STARTS = frozenset({"step.scheduled", "loop.iteration.started"})
_ENDS = frozenset(
    {"step.done", "step.failed", "loop.iteration.done", "loop.iteration.failed"}
)


class Effects(msgspec.Struct):
    """Effects of one batch. Commands are listed by their ids: ``parked`` ones are due
    at their time, ``woken`` ones now. ``timers`` are listed by their ids, ``children``
    by the command that waits for them. ``freed`` is set if commands that were held back
    may run. ``begun`` are commands whose workers have started a task."""

    ready: list[str] = msgspec.field(default_factory=list)
    over: list[str] = msgspec.field(default_factory=list)
    parked: dict[str, float] = msgspec.field(default_factory=dict)
    timers: dict[str, float] = msgspec.field(default_factory=dict)
    children: dict[str, dict[str, JSON]] = msgspec.field(default_factory=dict)
    freed: bool = False
    begun: list[str] = msgspec.field(default_factory=list)


def ready_in(events: Iterable[Event]) -> list[str]:
    """Return the commands that these events make ready and do not end."""
    ready: dict[str, None] = {}
    for event in events:
        if event.name in _STARTS and "first" in event.payload:
            ready[event.entity_id] = None
        elif event.name in _ENDS:
            ready.pop(event.entity_id, None)
    return list(ready)


def effects_of(events: Iterable[Event]) -> Effects:
    """Return the effects; they depend on the events alone, so a restart finds them
    again."""
    effects = Effects()
    for event in events:
        name = event.name
        if name == "step.scheduled":
            _schedule(effects, event.entity_id, event.payload)
        elif name == "loop.iteration.started":
            _start(effects, event.entity_id, event.payload)
        elif name in _ENDS:
            effects.over.append(event.entity_id)
        elif name == "task.started":
            effects.begun.append(_command_of(event))
        elif name == "task.suspended":
            _park(effects, _command_of(event), event.payload)
        elif name == "task.resumed":
            effects.parked[_command_of(event)] = 0.0
        elif name in _BEGINS:
            _limit(effects, event.payload)
        elif name == "workflow.cancelled":
            effects.freed = True
        elif name == "workflow.resumed":
            _resume(effects, event.execution_id, event.payload)
        elif name == "workflow.forked":
            _limit(effects, event.payload)
            _watch(effects, event.payload)
    return effects


def _schedule(effects: Effects, run_id: str, payload: StepScheduled) -> None:
    if "first" in payload:
        effects.ready.append(run_id)
    if "deadline" in payload:
        effects.timers[f"step:{run_id}"] = seconds_of(payload["deadline"])


def _start(effects: Effects, iteration_id: str, payload: IterationStarted) -> None:
    if "first" in payload:
        effects.ready.append(iteration_id)


def _limit(
    effects: Effects, payload: WorkflowStarted | WorkflowAdmitted | WorkflowForked
) -> None:
    if payload["deadline"] is not None:
        effects.timers["execution"] = seconds_of(payload["deadline"])


def _resume(effects: Effects, execution_id: str, payload: WorkflowResumed) -> None:
    effects.freed = True
    for owner, moment in payload["deadlines"].items():
        timer = "execution" if owner == execution_id else f"step:{owner}"
        effects.timers[timer] = seconds_of(moment)


def _watch(effects: Effects, payload: WorkflowForked) -> None:
    for run_id, moment in payload["deadlines"].items():
        effects.timers[f"step:{run_id}"] = seconds_of(moment)


def _command_of(event: Event) -> str:
    return event.iteration_id or event.step_run_id or ""


def _park(effects: Effects, command_id: str, payload: TaskSuspended) -> None:
    until = payload["until"]
    effects.parked[command_id] = NEVER if until is None else seconds_of(until)
    child = payload.get("child")
    if child is not None:
        effects.children[command_id] = child
