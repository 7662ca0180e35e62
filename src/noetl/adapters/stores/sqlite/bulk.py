"""Many rows in few statements: half of what a row costs is its statement."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain
from typing import Any

_SIZES = (64, 16, 8, 7, 6, 5, 4, 3, 2, 1)
"""Rows of one statement: a step's are one, and few sizes stay prepared."""


def run(db: sqlite3.Connection, sql: str, rows: Sequence[Sequence[Any]]) -> None:
    """Run a statement for all rows; what it says of one is between ``/* row */`` and
    ``/* end */``."""
    for some in _parts(rows):
        db.execute(_repeated(sql, len(some)), list(chain.from_iterable(some)))


def _parts(rows: Sequence[Sequence[Any]]) -> Iterator[Sequence[Sequence[Any]]]:
    start = 0
    for size in _SIZES:
        while len(rows) - start >= size:
            yield rows[start : start + size]
            start += size


@cache
def _repeated(sql: str, count: int) -> str:
    before, _, rest = sql.partition("/* row */")
    row, _, after = rest.partition("/* end */")
    return before + ",".join([row] * count) + after
