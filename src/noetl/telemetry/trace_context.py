"""W3C Trace Context: the ``traceparent`` of those who call NoETL, and its own.

https://www.w3.org/TR/trace-context/ : ``<version>-<trace id>-<span id>-<flags>``, in
small hexadecimal digits. Another version than 00 may have more fields; the first four
are read as those of version 00. ``tracestate`` is not read.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from noetl.dsl.node import shorten

HEADER = "traceparent"
VARIABLE = "TRACEPARENT"
MAX_CHARS = 512
_FORM = re.compile(r"([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?")
_SAMPLED = "01"


class TraceParent(msgspec.Struct, frozen=True):
    """The span of a caller, and the trace that it belongs to."""

    trace_id: str
    span_id: str

    def __str__(self) -> str:
        return traceparent(self.trace_id, self.span_id)


def traceparent(trace_id: str, span_id: str) -> str:
    """Return the header that names this span as the caller."""
    return f"00-{trace_id}-{span_id}-{_SAMPLED}"


def read_traceparent(
    values: Sequence[str] | None, place: str
) -> tuple[TraceParent | None, str | None]:
    """Return what the values of a header or a variable say, or a warning.

    Several values, or a value of another form, are ignored: the warning names
    ``place``. Without a value there is neither.
    """
    if not values:
        return None, None
    if len(values) > 1:
        return None, f"{place} is ignored: it was given {len(values)} times"
    text = values[0].strip()
    found = _FORM.fullmatch(text) if len(text) <= MAX_CHARS else None
    if found is not None and _is_valid(*found.groups()):
        return TraceParent(found[2], found[3]), None
    shown = shorten(text, 60) if text.isascii() and text.isprintable() else "other text"
    form = "00-<32 hexadecimal digits>-<16 hexadecimal digits>-01"
    return None, f"{place} is ignored: expected {form}, found '{shown}'"


def _is_valid(
    version: str, trace_id: str, span_id: str, flags: str, rest: str | None
) -> bool:
    if version == "ff" or not trace_id.strip("0") or not span_id.strip("0"):
        return False
    return version != "00" or rest is None
