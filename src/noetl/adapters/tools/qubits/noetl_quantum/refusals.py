"""What cannot be simulated, and why."""

from __future__ import annotations

from typing import Any


class Refusal(Exception):
    """``line`` and ``column`` start at 1, as editors count."""

    def __init__(
        self,
        kind: str,
        message: str,
        line: int | None = None,
        column: int | None = None,
    ) -> None:
        super().__init__(message)
        self.fault: dict[str, Any] = {"kind": kind, "message": message, "details": {}}
        if line is not None:
            self.fault["message"] = f"line {line}: {message}"
            self.fault["details"] = {"line": line, "column": column}
