"""Whether SQL can change anything: only what surely cannot is said to be read-only."""

from __future__ import annotations

import re

from noetl.adapters.tools.pg.tokens import scan

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
INSPECTED = 16 * 1024
"""Characters of SQL that are inspected on the event loop, before a call."""


def may_write(sql: str) -> bool:
    """Whether to record the start of a call before it runs; a text that would take
    long to inspect counts as one that writes."""
    return len(sql) > INSPECTED or not is_read_only(sql)


def is_read_only(sql: str) -> bool:
    """True only if nothing in the text can have an effect; doubt is an effect.

    A semicolon in a text or comment splits it, too. Then the rest begins with no word
    that reads, which is doubt. Takes time in proportion to the text.
    """
    if not _WRITING.isdisjoint(word.upper() for word in _WORD.findall(sql)):
        return False
    return all(map(_reads, sql.split(";")))


def _reads(statement: str) -> bool:
    first = next((each for each in scan(statement) if each.text != "("), None)
    return first is None or first.text.upper() in _READING
