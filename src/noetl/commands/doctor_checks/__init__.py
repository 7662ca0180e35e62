"""One line of the doctor's report."""

from __future__ import annotations

from typing import Literal

import msgspec

Status = Literal["ok", "warning", "problem"]


class Finding(msgspec.Struct, frozen=True):
    """What was looked at, what was found, and what to do about it."""

    check: str
    status: Status
    message: str
    cure: str | None = None


def worst(findings: list[Finding]) -> Status:
    for status in ("problem", "warning"):
        if any(found.status == status for found in findings):
            return status
    return "ok"
