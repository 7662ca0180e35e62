"""Encoding of events: as bytes of the log, and as lines of JSON for export.

The bytes leave out members that the position in the log or the name implies.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from noetl.engine.events import EVENTS, Event, Source, Status
from noetl.engine.ids import span_id_of
from noetl.types import JSON


class _Record(msgspec.Struct, frozen=True, omit_defaults=True):
    """The stored members of an event, in their stored order.

    This is the only definition of that order: ``pack`` and ``unpack`` follow it.
    """

    timestamp: str
    source: Source
    name: str
    entity_id: str
    status: Status
    parent_id: str | None = None
    step: str | None = None
    step_run_id: str | None = None
    iteration_id: str | None = None
    task_run_id: str | None = None
    task_label: str | None = None
    attempt: int | None = None
    action_id: str | None = None
    payload: dict[str, JSON] = msgspec.field(default_factory=dict)


_decode = msgspec.json.Decoder(_Record).decode
_NAMES = {
    "encode": msgspec.json.Encoder().encode,
    "record": _Record,
    "event": Event,
}


def _compiled(call: str, members: Iterable[str], *given: str) -> Callable[..., Any]:
    """Return a function that passes the members of its argument on, by position.

    ``call`` is what it does; ``{}`` stands for the members. ``given`` are further
    arguments. The function is compiled from the names: ``attrgetter`` takes a quarter
    more instructions.
    """
    values = ", ".join(name if name in given else f"it.{name}" for name in members)
    source = f"lambda {', '.join(('it', *given))}: {call.format(values)}"
    function: Callable[..., Any] = eval(source, _NAMES)
    return function


pack: Callable[[Event], bytes] = _compiled(
    "encode(record({}))", _Record.__struct_fields__
)
# The position in the log implies seq, the name implies the entity.
_event_of: Callable[..., Event] = _compiled(
    "event({})",
    Event.__struct_fields__,
    *("event_id", "execution_id", "seq", "entity_type"),
)


def unpack(body: bytes, execution_id: str, seq: int) -> Event:
    """Decode an event. Raises ``ValueError`` or ``TypeError`` for invalid bytes."""
    record = _decode(body)
    kind = EVENTS.get(record.name)
    if kind is None:
        raise ValueError(f"unknown event '{record.name[:80]}'")
    event_id = f"{execution_id}.{seq}"
    return _event_of(record, event_id, execution_id, seq, kind.entity)


class _Entity(msgspec.Struct):
    entity_id: str
    attempt: int | None = None


_entities = msgspec.json.Decoder(_Entity)


def event_line(event: Event, trace_id: str) -> bytes:
    """Return the event as a line of JSON, with its trace and span."""
    return traced(msgspec.json.encode(event), trace_id)


def traced(body: bytes, trace_id: str) -> bytes:
    """Return an encoded event with its trace and span, for export.

    Raises ``msgspec.DecodeError`` for bytes that are not an event.
    """
    entity = _entities.decode(body)
    span = span_id_of(entity.entity_id, entity.attempt)
    return body[:-1] + f',"trace_id":"{trace_id}","span_id":"{span}"}}'.encode()
