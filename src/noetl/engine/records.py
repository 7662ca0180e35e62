"""An event as a log keeps it: without what its place there and its name say already."""

from __future__ import annotations

import msgspec

from noetl.engine.events import NAMES, Event, Source, Status
from noetl.types import JSON


class _Record(msgspec.Struct, frozen=True, omit_defaults=True):
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


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(_Record).decode


def event_id(execution_id: str, seq: int) -> str:
    return f"{execution_id}.{seq}"


def pack(event: Event) -> bytes:
    return _encode(
        _Record(
            event.timestamp,
            event.source,
            event.name,
            event.entity_id,
            event.status,
            event.parent_id,
            event.step,
            event.step_run_id,
            event.iteration_id,
            event.task_run_id,
            event.task_label,
            event.attempt,
            event.action_id,
            event.payload,
        )
    )


def unpack(body: bytes, execution_id: str, seq: int) -> Event:
    """Raises ``ValueError``, or ``TypeError``, for what is no event."""
    record = _decode(body)
    kind = NAMES.get(record.name)
    if kind is None:
        raise ValueError(f"there is no event '{record.name[:80]}'")
    return Event(
        event_id(execution_id, seq),
        execution_id,
        seq,
        record.timestamp,
        record.source,
        record.name,
        kind.entity,
        record.entity_id,
        record.parent_id,
        record.status,
        record.step,
        record.step_run_id,
        record.iteration_id,
        record.task_run_id,
        record.task_label,
        record.attempt,
        record.action_id,
        record.payload,
    )
