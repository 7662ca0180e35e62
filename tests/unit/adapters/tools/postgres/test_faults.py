"""Errors without a server: kinds by SQLSTATE, and places in the author's text."""

from __future__ import annotations

import pytest

from noetl.adapters.tools.postgres.errors import Place, kind_of
from noetl.adapters.tools.postgres.placeholders import write
from noetl.adapters.tools.postgres.script import split


@pytest.mark.spec("S-65", "OUT-11")
@pytest.mark.parametrize(
    ("sqlstate", "kind", "retryable"),
    [
        ("08006", "connection", True),
        ("57P01", "connection", True),
        ("57P03", "connection", True),
        ("53300", "connection", True),
        ("28P01", "auth", False),
        ("28000", "auth", False),
        ("40001", "pg.serialization", True),
        ("40P01", "pg.deadlock", True),
        ("40002", "pg.transaction", False),
        ("55P03", "pg.lock", True),
        ("53200", "pg.resources", True),
        ("23505", "pg.unique_violation", False),
        ("23503", "pg.foreign_key_violation", False),
        ("23502", "pg.not_null_violation", False),
        ("23514", "pg.check_violation", False),
        ("23001", "pg.constraint", False),
        ("42601", "pg.syntax", False),
        ("42501", "pg.permission", False),
        ("42P01", "pg.undefined", False),
        ("42P07", "pg.duplicate", False),
        ("22012", "pg.data", False),
        ("25P04", "timeout", True),
        ("P0001", "pg.raised", False),
        ("XX000", "pg.internal", False),
        ("99999", "pg.error", False),
    ],
)
def test_a_sqlstate_has_a_kind(sqlstate: str, kind: str, retryable: bool) -> None:
    assert kind_of(sqlstate) == (kind, retryable)


def test_a_position_counts_in_the_authors_lines() -> None:
    first, second = split("SELECT 1;\n\nSELECT :a,\n  :b, nope\nFROM t")
    written = write(second, {1: "int4", 2: "date"})
    place = Place(second, written, of_several=True)

    details = place.details(str(written.sql.index("nope") + 1))

    assert details == {"statement": 2, "line": 4, "position": 7, "sql": ":b, nope"}
    assert place.mark(2) == ":b"
    assert Place(first).details(None) == {"line": 1}
    assert Place().details("7") == {}


def test_a_long_line_is_shown_around_the_place() -> None:
    (statement,) = split("SELECT " + "x, " * 1000 + "nope" + ", x" * 1000)
    place = Place(statement, write(statement, {}))

    shown = place.details(str(statement.text.index("nope") + 1))["sql"]

    assert "nope" in shown
    assert len(shown) <= 200
