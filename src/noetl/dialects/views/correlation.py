"""The ids of an event, and questions about them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime

from noetl.engine.events import Event
from noetl.types import JSON

IDS = (
    *("event_id", "step", "step_run_id", "iteration_id", "task_run_id", "tool_run_id"),
    *("task_label", "action_id", "attempt", "iteration", "page", "entity_type"),
    *("entity_id", "parent_id", "workflow_run_id"),
)
"""What events can be asked for by, in every view."""

NAMED = ("name", "event_type")
"""Two words for what an event is called, in the view that is asked for."""

_EPOCH = 1_577_836_800.0  # 2020
_PLACES = 64  # documents that one event becomes without a collision


def iteration_of(event: Event) -> int:
    """The index of the innermost loop; 0 outside."""
    _, mark, index = (event.iteration_id or "").rpartition("/")
    return int(index) if mark else 0


def page_of(event: Event) -> int:
    """How often the task was entered before, by a jump or a poll (S-60)."""
    _, mark, visit = (event.task_run_id or "").rpartition(".")
    return int(visit) - 1 if mark and visit.isdigit() else 0


def number_of(began: str, seq: int, place: int) -> str:
    """A number that grows with the log: the milliseconds of its begin, the position."""
    moment = datetime.fromisoformat(began).timestamp() - _EPOCH
    return str((max(int(moment * 1000), 0) << 22) + seq * _PLACES + place)


_DERIVED = {
    "tool_run_id": lambda event: event.task_run_id,
    "workflow_run_id": lambda event: event.execution_id,
    "iteration": iteration_of,
    "page": page_of,
}


def fits(event: Event, document: Mapping[str, JSON], wanted: Mapping[str, str]) -> bool:
    """Whether a document of a view has all of the ids, compared as texts.

    Those that the view does not show are the event's own.
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
