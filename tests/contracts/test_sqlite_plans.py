"""Queries that every look for work makes: none walks over what only waits."""

from __future__ import annotations

import sqlite3

import pytest

from noetl.adapters.stores.sqlite.queries import SQL, migrations, statements


@pytest.fixture(scope="module")
def db() -> sqlite3.Connection:
    db = sqlite3.connect(":memory:")
    for _, script in migrations():
        for statement in statements(script):
            db.execute(statement)
    return db


@pytest.mark.spec("S-68")
@pytest.mark.parametrize(
    ("query", "search"),
    [
        ("make_due", "command USING INDEX command_delayed (not_before<?)"),
        ("next_execution", "c USING COVERING INDEX command_open (state=? AND pool=?"),
        ("ready_commands", "c USING INDEX command_open (state=? AND pool=? AND"),
        ("expire", "command USING INDEX command_open (state=?)"),
        ("due_timers", "t USING INDEX timer_due (due_at<?)"),
    ],
)
def test_it_searches(db: sqlite3.Connection, query: str, search: str) -> None:
    count = SQL[query].count("?")
    plan = db.execute(f"EXPLAIN QUERY PLAN {SQL[query]}", (0,) * count).fetchall()

    assert any(search in row[3] for row in plan), plan
    assert not any(row[3].startswith("SCAN") for row in plan), plan
