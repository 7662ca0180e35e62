"""Checks of ``noetl doctor``, one module per part; each check returns findings."""

from __future__ import annotations

from typing import Literal

import msgspec

Status = Literal["ok", "warning", "problem"]


class Finding(msgspec.Struct, frozen=True):
    """The result of one check: its name, status, message and, if any, the cure."""

    check: str
    status: Status
    message: str
    cure: str | None = None


def worst(findings: list[Finding]) -> Status:
    for status in ("problem", "warning"):
        if any(found.status == status for found in findings):
            return status
    return "ok"
