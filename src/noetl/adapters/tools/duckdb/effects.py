"""Classification of SQL as read-only; in doubt, SQL counts as writing."""

from __future__ import annotations

import re

from noetl.adapters.tools.postgres.script import scan

_READING = frozenset(
    {
        *("SELECT", "FROM", "WITH", "VALUES", "TABLE", "PIVOT", "UNPIVOT"),
        *("DESCRIBE", "DESC", "SHOW", "SUMMARIZE", "EXPLAIN"),
    }
)
# Searched in the whole text, including names and literals, since a false positive does
# no harm. WITH may contain them in a SELECT, and EXPLAIN ANALYZE runs its statement.
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
    """Return whether the start of a call must be recorded before it runs.

    A text longer than ``INSPECTED`` counts as writing.
    """
    return len(sql) > INSPECTED or not is_read_only(sql)


def is_read_only(sql: str) -> bool:
    """Return True only if no statement of the text can have an effect.

    A semicolon in a literal or comment splits the text, too; the rest then begins with
    an unknown word and counts as writing. Takes time in proportion to the text.
    """
    if not _WRITING.isdisjoint(word.upper() for word in _WORD.findall(sql)):
        return False
    return all(map(_reads, sql.split(";")))


def _reads(statement: str) -> bool:
    first = next((each for each in scan(statement) if each.text != "("), None)
    return first is None or first.text.upper() in _READING
