"""Named queries and numbered migrations, read from the .sql files beside."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from functools import cache
from importlib.resources import files

_FOLDER = files(__package__) / "sql"
_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_MIGRATION = re.compile(r"(\d{4})_\w+\.sql")


def _read_queries() -> dict[str, str]:
    text = (_FOLDER / "queries.sql").read_text(encoding="utf-8")
    _, *parts = _NAME.split(text)
    return {
        name: sql.strip() for name, sql in zip(parts[::2], parts[1::2], strict=True)
    }


@cache
def migrations() -> list[tuple[int, str]]:
    """All of them, in order."""
    found = []
    for file in _FOLDER.iterdir():
        if match := _MIGRATION.fullmatch(file.name):
            found.append((int(match[1]), file.read_text(encoding="utf-8")))
    return sorted(found)


def statements(script: str) -> Iterator[str]:
    """One after the other; ``executescript`` would end the transaction they are in."""
    lines: list[str] = []
    for line in script.splitlines():
        lines.append(line)
        statement = "\n".join(lines)
        if sqlite3.complete_statement(statement):
            yield statement
            lines = []


SQL = _read_queries()
