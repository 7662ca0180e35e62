"""Recorded events → what the outside must do: run, park, wake, watch the clock."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from noetl.engine.events import Event
from noetl.engine.times import NEVER, seconds_of
from noetl.types import JSON

_BEGINS = frozenset({"workflow.started", "workflow.admitted"})
_STARTS = frozenset({"step.scheduled", "loop.iteration.started"})
_ENDS = frozenset(
    {"step.done", "step.failed", "loop.iteration.done", "loop.iteration.failed"}
)


class Effects(msgspec.Struct):
    """Commands by their ids. ``parked`` ones are due at their time, ``woken`` ones now;
    ``timers`` by their ids; ``children`` by the command that waits for them.
    ``freed`` says that what was held back may go on."""

    ready: list[str] = msgspec.field(default_factory=list)
    over: list[str] = msgspec.field(default_factory=list)
    parked: dict[str, float] = msgspec.field(default_factory=dict)
    timers: dict[str, float] = msgspec.field(default_factory=dict)
    children: dict[str, dict[str, JSON]] = msgspec.field(default_factory=dict)
    freed: bool = False


def effects_of(events: Iterable[Event]) -> Effects:
    """A function of the events alone: after a crash they are found again."""
    effects = Effects()
    for event in events:
        name = event.name
        if name in _STARTS:
            if "first" in event.payload:
                effects.ready.append(event.entity_id)
            if event.payload.get("deadline") is not None:
                due = seconds_of(event.payload["deadline"])
                effects.timers[f"step:{event.entity_id}"] = due
        elif name in _ENDS:
            effects.over.append(event.entity_id)
        elif name == "task.suspended":
            _park(effects, event)
        elif name == "task.resumed":
            effects.parked[_command_of(event)] = 0.0
        elif name in _BEGINS and event.payload["deadline"] is not None:
            effects.timers["execution"] = seconds_of(event.payload["deadline"])
        elif name == "workflow.cancelled":
            effects.freed = True
        elif name == "workflow.resumed":
            effects.freed = True
            for owner, moment in event.payload["deadlines"].items():
                whole = owner == event.execution_id
                timer = "execution" if whole else f"step:{owner}"
                effects.timers[timer] = seconds_of(moment)
        elif name == "workflow.forked":
            if event.payload["deadline"] is not None:
                effects.timers["execution"] = seconds_of(event.payload["deadline"])
            for owner, moment in event.payload["deadlines"].items():
                effects.timers[f"step:{owner}"] = seconds_of(moment)
    return effects


def _command_of(event: Event) -> str:
    return event.iteration_id or event.step_run_id or ""


def _park(effects: Effects, event: Event) -> None:
    command_id, until = _command_of(event), event.payload["until"]
    effects.parked[command_id] = NEVER if until is None else seconds_of(until)
    child = event.payload.get("child")
    if child is not None:
        effects.children[command_id] = child
