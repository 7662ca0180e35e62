"""W3C trace context: derived from ids, so that no event need carry it."""

from __future__ import annotations

from hashlib import blake2b

import msgspec

from noetl.engine.events import Event


def trace_id_of(execution_id: str) -> str:
    """The trace of a root execution: its own id where that is a UUID."""
    plain = execution_id.replace("-", "")
    if len(plain) == 32 and all(digit in "0123456789abcdef" for digit in plain):
        return plain
    return blake2b(execution_id.encode(), digest_size=16).hexdigest()


def span_id_of(entity_id: str, attempt: int | None = None) -> str:
    """The span of a run, an iteration or one attempt of a task."""
    name = entity_id if attempt is None else f"{entity_id}#{attempt}"
    return blake2b(name.encode(), digest_size=8).hexdigest()


class _Entity(msgspec.Struct):
    entity_id: str
    attempt: int | None = None


_entities = msgspec.json.Decoder(_Entity)


def event_line(event: Event, trace_id: str) -> bytes:
    """The event as a line of JSON, and where it belongs in a trace."""
    return traced(msgspec.json.encode(event), trace_id)


def traced(body: bytes, trace_id: str) -> bytes:
    """An encoded event, and where it belongs in a trace: what leaves NoETL.

    Raises ``msgspec.DecodeError`` for what is no event.
    """
    entity = _entities.decode(body)
    span = span_id_of(entity.entity_id, entity.attempt)
    return body[:-1] + f',"trace_id":"{trace_id}","span_id":"{span}"}}'.encode()
