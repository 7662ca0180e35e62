"""The tables of `noetl sql` and of exported files."""

from __future__ import annotations

from noetl.adapters.analytics.tables import TABLES
from pages.markdown import table


def sql() -> str:
    parts = [
        "What `noetl sql` can ask, in [DuckDB's SQL](https://duckdb.org/docs/sql/"
        "introduction). Files of `noetl events --export` have the columns of `events`. "
        "JSON is read with `->` and `->>`: `payload->>'$.outcome.error.kind'`. Times "
        "are in UTC."
    ]
    for name, each in TABLES.items():
        rows = ((f"`{key}`", c.type, c.doc) for key, c in each.columns.items())
        parts += [
            f"## {name}",
            each.doc,
            table("| column | type | meaning |", rows),
        ]
    return "\n\n".join(parts)
