"""What this side finds wrong by itself, before or after DuckDB does."""

from __future__ import annotations

from typing import Any


class Refusal(Exception):
    """Ends the call; ``kind`` and message are what the playbook sees."""

    def __init__(self, kind: str, message: str, **details: Any) -> None:
        super().__init__(message)
        self.fault: dict[str, Any] = {
            "kind": kind,
            "message": message,
            "details": details,
        }
