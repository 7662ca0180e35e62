"""Refused requests, with the reason and a hint."""

from __future__ import annotations

from noetl.errors import NoetlError
from noetl.types import JSON


class RequestRefused(NoetlError):
    """A refused request. ``kind`` is stable and documented; ``more`` are extra
    members."""

    def __init__(
        self, kind: str, message: str, hint: str | None = None, **more: JSON
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.hint = hint
        self.more = more


def no_execution() -> RequestRefused:
    """Return the same refusal for an absent execution and a hidden one (row 64)."""
    return RequestRefused("execution.unknown", "there is no such execution")


def no_playbook(path: str, version: str | None = None) -> RequestRefused:
    which = f" in version '{version}'" if version else ""
    message = f"there is no playbook '{path}'{which} in the catalog"
    hint = "register it: noetl catalog register FILE"
    return RequestRefused("playbook.not_found", message, hint)
