"""Recorded events → what the outside must do: pipelines to run, pipelines to forget."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from noetl.engine.events import Event

_STARTS = ("step.scheduled", "loop.iteration.started")
_ENDS = ("step.done", "step.failed", "loop.iteration.done", "loop.iteration.failed")


class Effects(msgspec.Struct):
    """Commands by their ids: made ready, and over."""

    ready: list[str] = msgspec.field(default_factory=list)
    over: list[str] = msgspec.field(default_factory=list)


def effects_of(events: Iterable[Event]) -> Effects:
    """A function of the events alone: after a crash they are found again."""
    effects = Effects()
    for event in events:
        if event.name in _STARTS and "first" in event.payload:
            effects.ready.append(event.entity_id)
        elif event.name in _ENDS:
            effects.over.append(event.entity_id)
    return effects
