"""A request that is not granted: why, and what to do about it."""

from __future__ import annotations

from noetl.errors import NoetlError
from noetl.types import JSON


class Refusal(NoetlError):
    """``kind`` is stable and documented; ``more`` are members beside the message."""

    def __init__(
        self, kind: str, message: str, hint: str | None = None, **more: JSON
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message
        self.hint = hint
        self.more = more


def no_execution() -> Refusal:
    """One text for all that is not there, or not theirs to see (row 64)."""
    return Refusal("execution.unknown", "there is no such execution")


def no_playbook(path: str, version: str | None = None) -> Refusal:
    which = f" in version '{version}'" if version else ""
    message = f"there is no playbook '{path}'{which} in the catalog"
    hint = "register it: noetl catalog register FILE"
    return Refusal("playbook.not_found", message, hint)
