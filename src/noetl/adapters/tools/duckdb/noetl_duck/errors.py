"""Errors of DuckDB in parts, which the worker translates to error kinds."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import duckdb

_MAX_CHARS = 4096


class Place:
    """Place of an error: the input or the statement of the SQL that runs."""

    def __init__(self, sql: str) -> None:
        self._sql = sql.encode()
        self._number = 0
        self._of = 0
        self.label = ""
        self.verb = ""
        self.is_exact = True  # positions refer to the author's text

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
    """Return ``{type, subtype, label, verb, said, details}``."""
    _, _, text = str(error).partition("Error: ")
    try:
        told = json.loads(text)
    except ValueError:
        told = None
    if not isinstance(told, dict):
        told = {"exception_message": text or str(error)}
    said = str(told.get("exception_message", ""))[:_MAX_CHARS]
    return {
        "type": type(error).__name__.removesuffix("Exception"),
        "subtype": told.get("error_subtype"),
        "label": place.label,
        "verb": place.verb,
        "said": said,
        "details": {} if place.label else place.details(told.get("position")),
    }


class Refusal(Exception):
    """Ends the call with this error kind and message."""

    def __init__(self, kind: str, message: str, **details: Any) -> None:
        super().__init__(message)
        self.fault: dict[str, Any] = {
            "kind": kind,
            "message": message,
            "details": details,
        }


def name(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def texts(items: Iterable[str]) -> str:
    return "[" + ", ".join(map(literal, items)) + "]"
