"""Named queries and numbered migrations, read from the .sql files of a package."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from importlib.resources import files

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)
_MIGRATION = re.compile(r"(\d{4})_\w+\.sql")
_FILE = re.compile(r"\{file ([\w.]+) ([\w.]+)\}")


def read_queries(package: str) -> dict[str, str]:
    text = (files(package) / "sql" / "queries.sql").read_text(encoding="utf-8")
    _, *parts = _NAME.split(text)
    return {
        name: sql.strip() for name, sql in zip(parts[::2], parts[1::2], strict=True)
    }


def read_migrations(package: str) -> list[tuple[int, str]]:
    """Return numbers and scripts of all migrations, in order.

    ``{file package name}`` in a script stands for the bytes of a file, in hexadecimal.
    """
    found = []
    for file in (files(package) / "sql").iterdir():
        if match := _MIGRATION.fullmatch(file.name):
            script = _FILE.sub(_hex, file.read_text(encoding="utf-8"))
            found.append((int(match[1]), script))
    return sorted(found)


def _hex(found: re.Match[str]) -> str:
    return files(found[1]).joinpath(found[2]).read_bytes().hex()


def statements(script: str) -> Iterator[str]:
    """Yield the statements of a script for SQLite.

    ``executescript`` would commit the running transaction.
    """
    lines: list[str] = []
    for line in script.splitlines():
        lines.append(line)
        statement = "\n".join(lines)
        if sqlite3.complete_statement(statement):
            yield statement
            lines = []
