"""OTLP in its JSON encoding: spans and log records as a collector takes them.

https://opentelemetry.io/docs/specs/otlp/ : ids in hexadecimal, numbers of 64 bits as
text, times in nanoseconds since 1970.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from noetl.engine.times import seconds_of
from noetl.telemetry.span import Span, Value

_KINDS = {"internal": 1, "server": 2, "client": 3}
_STATUSES = {"unset": 0, "ok": 1, "error": 2}
_SEVERITIES = {"debug": 5, "info": 9, "warning": 13, "error": 17, "critical": 21}
_encode = msgspec.json.Encoder().encode

Record = Mapping[str, Any]


def encode_spans(spans: Sequence[Record], resource: Mapping[str, str]) -> bytes:
    """Return the body of ``POST /v1/traces``."""
    scope = {"scope": {"name": "noetl"}, "spans": spans}
    of = {"resource": _resource(resource), "scopeSpans": [scope]}
    return _encode({"resourceSpans": [of]})


def encode_logs(records: Sequence[Record], resource: Mapping[str, str]) -> bytes:
    """Return the body of ``POST /v1/logs``."""
    scope = {"scope": {"name": "noetl"}, "logRecords": records}
    of = {"resource": _resource(resource), "scopeLogs": [scope]}
    return _encode({"resourceLogs": [of]})


def span_record(span: Span) -> Record:
    record: dict[str, Any] = {
        "traceId": span.trace_id,
        "spanId": span.span_id,
        "name": span.name,
        "kind": _KINDS[span.kind],
        "startTimeUnixNano": _nanos(span.start),
        # A worker's clock may be behind that of the server.
        "endTimeUnixNano": _nanos(max(span.start, span.end)),
        "attributes": _attributes(span.attributes),
        "status": {"code": _STATUSES[span.status], "message": span.message},
    }
    if span.parent_id is not None:
        record["parentSpanId"] = span.parent_id
    if span.events:
        record["events"] = [
            {
                "name": each.name,
                "timeUnixNano": _nanos(each.at),
                "attributes": _attributes(each.attributes),
            }
            for each in span.events
        ]
    if span.links:
        record["links"] = [
            {
                "traceId": each.trace_id,
                "spanId": each.span_id,
                "attributes": _attributes(each.attributes),
            }
            for each in span.links
        ]
    return record


def log_record(
    line: str,
    seconds: float,
    level: str,
    trace_id: str,
    span_id: str,
    attributes: Mapping[str, Value],
) -> Record:
    return {
        "timeUnixNano": str(round(seconds * 1_000_000) * 1_000),
        "severityNumber": _SEVERITIES[level],
        "severityText": level.upper(),
        "body": {"stringValue": line},
        "attributes": _attributes(attributes),
        "traceId": trace_id,
        "spanId": span_id,
    }


def _resource(attributes: Mapping[str, str]) -> Record:
    return {"attributes": _attributes(attributes)}


def _attributes(values: Mapping[str, Any]) -> list[Record]:
    return [{"key": key, "value": _value(value)} for key, value in values.items()]


def _value(value: Value) -> Record:
    if isinstance(value, bool):
        return {"boolValue": value}
    if isinstance(value, int):
        return {"intValue": str(value)}
    if isinstance(value, float):
        return {"doubleValue": value}
    if isinstance(value, list):
        return {"arrayValue": {"values": [{"stringValue": each} for each in value]}}
    return {"stringValue": value}


def _nanos(text: str) -> str:
    return str(round(seconds_of(text) * 1_000_000) * 1_000)
