"""What is read-only for sure, and what is not."""

from __future__ import annotations

import pytest

from noetl.adapters.tools.postgres.script import is_read_only


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 1",
        "select id, 'INSERT INTO x' from orders where total > 5 -- DELETE",
        'SELECT count(*), max("update") FROM a.orders GROUP BY 1',
        "WITH a AS (SELECT 1) SELECT * FROM a WHERE id IN (SELECT 2)",
        "SELECT CAST(x AS numeric(10, 2)), now() FROM t; VALUES (1), (2)",
        "TABLE orders",
        "SHOW work_mem",
        "EXPLAIN SELECT 1",
        "BEGIN READ ONLY; SELECT 1; COMMIT",
    ],
)
def test_reading(sql: str) -> None:
    assert is_read_only(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO t VALUES (1)",
        "SELECT 1; DELETE FROM t",
        "WITH gone AS (DELETE FROM t RETURNING *) SELECT * FROM gone",
        "SELECT * INTO copy FROM t",
        "SELECT nextval('s')",
        "SELECT pg_terminate_backend(1)",
        'SELECT "count"(*) FROM t',
        "SELECT mine.lower(x) FROM t",
        "SELECT * FROM t FOR UPDATE",
        "EXPLAIN ANALYZE DELETE FROM t",
        "CALL f()",
        "DO $$ BEGIN END $$",
        "COPY t TO '/tmp/x'",
        "SET ROLE admin",
        "NOTIFY x",
    ],
)
def test_perhaps_writing(sql: str) -> None:
    assert not is_read_only(sql)
