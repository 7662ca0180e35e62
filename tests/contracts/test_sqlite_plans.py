"""Queries that every look for work makes: none walks over what only waits."""

from __future__ import annotations

import sqlite3

import pytest

from noetl.adapters.sql_files import statements
from noetl.adapters.stores.sqlite.schema import SQL, WAITS_SQL, migrations


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
        ("next_family", "c USING COVERING INDEX command_open (state=? AND pool=?"),
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


@pytest.mark.spec("S-79")
@pytest.mark.parametrize("query", ["next_family", "next_execution", "ready_commands"])
def test_a_claim_for_waits_reads_their_index_alone(
    db: sqlite3.Connection, query: str
) -> None:
    sql = WAITS_SQL[query]
    plan = db.execute(f"EXPLAIN QUERY PLAN {sql}", (0,) * sql.count("?")).fetchall()

    assert any("command_waits (pool=?" in row[3] for row in plan), plan


@pytest.mark.spec("S-37")
def test_a_family_is_counted_without_a_look_at_its_rows(db: sqlite3.Connection) -> None:
    search = "SEARCH execution USING COVERING INDEX execution_family (family=?)"

    sql = f"EXPLAIN QUERY PLAN {SQL['count_family']}"

    assert search in [row[3] for row in db.execute(sql, ("x", 9))]


@pytest.mark.spec("S-72")
def test_a_listing_by_labels_walks_their_index(db: sqlite3.Connection) -> None:
    sql = f"EXPLAIN QUERY PLAN {SQL['find_by_labels']}"
    plan = [row[3] for row in db.execute(sql, ("team", "a", 9, None, "{}", 9))]

    assert plan[0] == (
        "SEARCH l USING PRIMARY KEY (name=? AND value=? AND execution<?)"
    )
    assert "SEARCH x USING INTEGER PRIMARY KEY (rowid=?)" in plan
    assert not any("TEMP B-TREE" in step for step in plan), plan
