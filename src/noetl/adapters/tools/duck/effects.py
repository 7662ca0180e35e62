"""Whether SQL can change anything: only what surely cannot is said to be read-only."""

from __future__ import annotations

import re

_READING = frozenset(
    {
        *("SELECT", "FROM", "WITH", "VALUES", "TABLE", "PIVOT", "UNPIVOT"),
        *("DESCRIBE", "DESC", "SHOW", "SUMMARIZE", "EXPLAIN"),
    }
)
# Anywhere, even as a name or in a text: better one barrier too many. A SELECT can hold
# them (in WITH), and EXPLAIN ANALYZE runs what it explains.
_WRITING = frozenset(
    {
        *("INSERT", "UPDATE", "DELETE", "MERGE", "TRUNCATE", "COPY", "NEXTVAL"),
        *("CREATE", "ALTER", "DROP", "CALL", "CHECKPOINT", "ANALYZE"),
    }
)
_WORD = re.compile(r"[A-Za-z_]+")
_START = re.compile(r"(?:\s|\(|--[^\n]*(?:\n|\Z)|/\*.*?\*/)*([A-Za-z_]+|\Z)", re.DOTALL)


def is_read_only(sql: str) -> bool:
    """True only if nothing in the text can have an effect; doubt is an effect.

    A semicolon in a text or comment splits it, too. Then the rest begins with no word
    that reads, which is doubt.
    """
    if not _WRITING.isdisjoint(word.upper() for word in _WORD.findall(sql)):
        return False
    return all(map(_reads, sql.split(";")))


def _reads(statement: str) -> bool:
    found = _START.match(statement)
    return found is not None and (found[1] == "" or found[1].upper() in _READING)
