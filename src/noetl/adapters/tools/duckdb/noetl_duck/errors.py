"""What DuckDB says when it fails, in parts: the other side gives it a name."""

from __future__ import annotations

import json
from typing import Any

import duckdb

_LONGEST = 4096


class Place:
    """What is under way, for errors to say: an input, or a statement of the SQL."""

    def __init__(self, sql: str) -> None:
        self._sql = sql.encode()
        self._number = 0
        self._of = 0
        self.label = ""
        self.verb = ""
        self.is_exact = True  # what runs is the author's text, so positions fit it

    def enter(self, number: int, of: int, verb: str) -> None:
        self.label = ""
        self._number, self._of, self.verb = number, of, verb

    def details(self, position: str | None) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if self._of > 1:
            found["statement"] = self._number
        if position is not None and position.isdecimal() and self.is_exact:
            before = self._sql[: int(position)].decode(errors="ignore")
            found["line"] = before.count("\n") + 1
            found["position"] = len(before) - before.rfind("\n")
        return found


def describe(error: duckdb.Error, place: Place) -> dict[str, Any]:
    """``{type, subtype, label, verb, said, details}``."""
    _, _, text = str(error).partition("Error: ")
    try:
        told = json.loads(text)
    except ValueError:
        told = None
    if not isinstance(told, dict):
        told = {"exception_message": text or str(error)}
    said = str(told.get("exception_message", ""))[:_LONGEST]
    return {
        "type": type(error).__name__.removesuffix("Exception"),
        "subtype": told.get("error_subtype"),
        "label": place.label,
        "verb": place.verb,
        "said": said,
        "details": {} if place.label else place.details(told.get("position")),
    }
