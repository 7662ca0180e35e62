"""Outcomes of tool calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from noetl.types import JSON

# Helper members by kind: always present, null if unknown (S-30).
HELPERS: Mapping[str, tuple[str, tuple[str, ...]]] = {
    "http": ("http", ("status", "headers", "request_id", "url", "elapsed_ms")),
    "postgres": ("pg", ("code", "sqlstate")),
    "python": ("py", ("exception_type",)),
    "playbook": ("playbook", ("execution_id", "status")),
}


class Failure(msgspec.Struct, frozen=True, omit_defaults=False):
    """The error of a call. ``kind`` is stable: playbooks match on it."""

    kind: str
    message: str
    retryable: bool = False
    details: dict[str, JSON] = msgspec.field(default_factory=dict)


class Meta(msgspec.Struct, frozen=True):
    """Times, duration and attempt of a call; times are RFC 3339 in UTC."""

    attempt: int
    started_at: str
    ts: str
    duration_ms: float
    trace_id: str | None = None
    span_id: str | None = None


class PrintedMeta(Meta, frozen=True):
    """``Meta`` of a call that printed something: ``lines`` and ``bytes`` of its log."""

    logs: dict[str, int] = {}


class Stored(msgspec.Struct, frozen=True):
    """A value that a tool has put into the result store; ``hint`` is its type, or the
    format of a file."""

    key: str
    size: int
    hint: str = "list"


class Outcome(msgspec.Struct, frozen=True):
    """The outcome of a call; ``helper`` has the members of the kind, e.g. ``http``.

    ``stored`` are parts of the result by their dotted paths. Only the code of a tool
    sets it: received data cannot claim to be a reference (S-48).
    """

    status: Literal["ok", "error"]
    result: JSON = None
    error: Failure | None = None
    helper: dict[str, JSON] = msgspec.field(default_factory=dict)
    stored: dict[str, Stored] = msgspec.field(default_factory=dict)

    @classmethod
    def ok(
        cls,
        result: JSON = None,
        *,
        stored: dict[str, Stored] | None = None,
        **helper: JSON,
    ) -> Outcome:
        return cls("ok", result, None, helper, stored or {})

    @classmethod
    def failed(
        cls,
        kind: str,
        message: str,
        *,
        retryable: bool = False,
        details: dict[str, JSON] | None = None,
        **helper: JSON,
    ) -> Outcome:
        return cls(
            "error", None, Failure(kind, message, retryable, details or {}), helper
        )


def envelope(outcome: Outcome, kind: str, meta: Meta) -> dict[str, JSON]:
    """Return the outcome as templates and the log see it."""
    body: dict[str, JSON] = {
        "status": outcome.status,
        "result": outcome.result,
        "error": msgspec.to_builtins(outcome.error),
        "meta": msgspec.to_builtins(meta),
    }
    if kind in HELPERS:
        name, members = HELPERS[kind]
        body[name] = {**dict.fromkeys(members), **outcome.helper}
    elif outcome.helper:
        body[kind] = outcome.helper
    return body
