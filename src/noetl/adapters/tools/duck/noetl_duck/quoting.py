"""Names and texts as parts of SQL."""

from __future__ import annotations

from collections.abc import Iterable


def name(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def texts(items: Iterable[str]) -> str:
    return "[" + ", ".join(map(literal, items)) + "]"
