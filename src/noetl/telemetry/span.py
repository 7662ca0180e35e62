"""A span: a part of an execution with a beginning and an end."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

Status = Literal["unset", "ok", "error"]
Value = str | int | float | bool | list[str]
MAX_EVENTS = 128
"""Events of one span."""


class SpanEvent(msgspec.Struct, frozen=True):
    """A moment within a span; ``at`` is RFC 3339."""

    name: str
    at: str
    attributes: Mapping[str, Value] = {}


class Link(msgspec.Struct, frozen=True):
    """Another execution that belongs to this one: its origin, or one that it called."""

    trace_id: str
    span_id: str
    attributes: Mapping[str, Value] = {}


class Span(msgspec.Struct):
    """A span; times are RFC 3339."""

    trace_id: str
    span_id: str
    name: str
    start: str
    end: str = ""
    parent_id: str | None = None
    kind: Literal["internal", "server", "client"] = "internal"
    status: Status = "unset"
    message: str = ""
    attributes: dict[str, Value] = msgspec.field(default_factory=dict)
    events: list[SpanEvent] = msgspec.field(default_factory=list)
    links: list[Link] = msgspec.field(default_factory=list)

    def note(self, name: str, at: str, attributes: Mapping[str, Value]) -> None:
        if len(self.events) < MAX_EVENTS:
            self.events.append(SpanEvent(name, at, attributes))
