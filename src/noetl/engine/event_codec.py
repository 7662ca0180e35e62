"""Encoding of events: as bytes of the log, and as lines of JSON for export.

The bytes leave out members that the position in the log, the name or other members
imply.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from noetl.engine.events import EVENTS, Event, Source, Status
from noetl.engine.ids import action_id, span_id_of
from noetl.engine.runs import path_of
from noetl.types import JSON


class _Record(msgspec.Struct, frozen=True, omit_defaults=True):
    """The stored members of an event, in their stored order.

    This is the only definition of that order: ``pack`` and ``unpack`` follow it. An
    event without an ``entity_id`` has the usual ids of entity and parent: see ``_ids``;
    one without a ``task_run_id`` or ``action_id`` has the usual one: see ``_task_run``
    and ``_action``.
    """

    timestamp: str
    source: Source
    name: str
    entity_id: str = ""
    status: Status = ""  # type: ignore[assignment]
    parent_id: str | None = None
    step: str | None = None
    step_run_id: str | None = None
    iteration_id: str | None = None
    task_run_id: str | None = ""
    task_label: str | None = None
    attempt: int | None = None
    action_id: str | None = ""
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


_body_of: Callable[..., bytes] = _compiled(
    "encode(record({}))",
    _Record.__struct_fields__,
    *("entity_id", "parent_id", "task_run_id", "action_id"),
)
# The position in the log implies seq, the name implies the type of the entity.
_event_of: Callable[..., Event] = _compiled(
    "event({})",
    Event.__struct_fields__,
    *("event_id", "execution_id", "seq", "entity_type", "entity_id", "parent_id"),
    *("task_run_id", "action_id"),
)


def _task_run(it: Event | _Record, entity_type: str) -> str | None:
    """Return the usual id of a task run: that of the first visit of the task."""
    if entity_type != "task" or it.task_label is None:
        return None
    return f"{it.iteration_id or it.step_run_id}:{it.task_label}.1"


def _ids(
    it: Event | _Record, entity_type: str, execution_id: str, task_run: str | None
) -> tuple[str | None, str | None]:
    """Return the usual ids of an event's entity and of its parent."""
    run = it.step_run_id
    if entity_type == "task":
        return task_run, run
    if entity_type == "loop":
        return it.iteration_id or run, run
    if entity_type == "next":
        return run, run
    if entity_type == "step":
        return run, execution_id
    return execution_id, None


_ACTING = frozenset({"task.started", "task.suspended", "task.done"})
"""Events of a task that always have the id of its effect."""


def _action(it: Event | _Record, execution_id: str, task_run: str | None) -> str | None:
    """Return the usual id of the effect of an event's task."""
    if it.name not in _ACTING:
        return None
    run, label = it.step_run_id, it.task_label
    if run is None or label is None or task_run is None:
        return None
    try:
        path, visit = path_of(it.iteration_id), int(task_run.rpartition(".")[2])
        return action_id(execution_id, run, label, path, visit)
    except (ValueError, OverflowError):  # ids that no engine made
        return None


def pack(event: Event) -> bytes:
    """Encode an event as a line of the log."""
    execution_id, kind = event.execution_id, event.entity_type
    task_run, action = event.task_run_id, event.action_id
    if action == _action(event, execution_id, task_run):
        action = ""
    ids: tuple[str, str | None] = event.entity_id, event.parent_id
    if ids == _ids(event, kind, execution_id, task_run):
        ids = "", None
    if task_run == _task_run(event, kind):
        task_run = ""
    return _body_of(event, *ids, task_run, action)


def unpack(body: bytes, execution_id: str, seq: int) -> Event:
    """Decode an event. Raises ``ValueError`` or ``TypeError`` for invalid bytes."""
    record = _decode(body)
    kind = EVENTS.get(record.name)
    if kind is None:
        raise ValueError(f"unknown event '{record.name[:80]}'")
    event_id = f"{execution_id}.{seq}"
    task_run, action = record.task_run_id, record.action_id
    if task_run == "":
        task_run = _task_run(record, kind.entity)
    if action == "":
        action = _action(record, execution_id, task_run)
    ids: tuple[str | None, str | None] = record.entity_id, record.parent_id
    if not record.entity_id:
        ids = _ids(record, kind.entity, execution_id, task_run)
    own = event_id, execution_id, seq, kind.entity, *ids, task_run, action
    return _event_of(record, *own)


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
