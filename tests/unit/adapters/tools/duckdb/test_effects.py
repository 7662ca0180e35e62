"""Whether SQL can change anything: only what surely cannot is read-only."""

from __future__ import annotations

import pytest

from noetl.adapters.tools.duckdb.tool import is_read_only

READING = [
    "SELECT 1",
    "from t",
    "  WITH a AS (SELECT 1) SELECT * FROM a;",
    "VALUES (1), (2)",
    "(SELECT 1) UNION (SELECT 2)",
    "-- a word first\nSELECT 1",
    "/* and\nhere */ SELECT 1; SELECT 2;",
    "DESCRIBE t",
    "SUMMARIZE t",
    "PIVOT t ON a",
    "EXPLAIN SELECT 1",
    "",
    "SELECT updated_at, deleted FROM t",
]
WRITING = [
    "INSERT INTO t VALUES (1)",
    "SELECT 1; DROP TABLE t",
    "WITH a AS (INSERT INTO t VALUES (1) RETURNING *) SELECT * FROM a",
    "EXPLAIN ANALYZE DELETE FROM t",
    "EXPLAIN ANALYZE SELECT 1",
    "COPY t TO 'x.csv'",
    "ATTACH 'x.db'",
    "SET VARIABLE a = 1",
    "select nextval('s')",
    "/* SELECT 1; */ INSERT INTO t VALUES (1)",
    "SELECT ';' INSERT",
    "-- SELECT\nUPDATE t SET a = 1",
    "SELECT 'a;b'",  # doubt
    "vacuum",
]


@pytest.mark.parametrize("sql", READING)
def test_what_only_reads(sql: str) -> None:
    assert is_read_only(sql)


@pytest.mark.parametrize("sql", WRITING)
def test_what_may_write(sql: str) -> None:
    assert not is_read_only(sql)
