"""Every type of DuckDB as JSON, and every result in its form."""

from __future__ import annotations

from typing import Any

import pytest
from ducks import Duck

pytestmark = pytest.mark.spec("PIPE-14")

VALUES: list[tuple[str, Any]] = [
    ("NULL", None),
    ("true", True),
    ("127::TINYINT", 127),
    ("9223372036854775807", 2**63 - 1),
    ("9223372036854775808::UBIGINT", "9223372036854775808"),
    ("sum(5::BIGINT)", 5),  # a HUGEINT
    ("170141183460469231731687303715884105727", str(2**127 - 1)),
    ("99999999999999999999999999999999999999999999::BIGNUM", "9" * 44),
    ("1.1::FLOAT", 1.1),
    ("0.1::DOUBLE", 0.1),
    ("'nan'::DOUBLE", "NaN"),
    ("'-inf'::FLOAT", "-Infinity"),
    ("1.50::DECIMAL(18, 2)", 1.5),
    ("2.00::DECIMAL(18, 2)", 2),
    ("1234567890123456789.01::DECIMAL(38, 2)", "1234567890123456789.01"),
    ("'é😀'", "é😀"),
    ("'x'::ENUM ('x', 'y')", "x"),
    ("'0101'::BIT", "0101"),
    (
        "'6191013c-ce05-485a-808e-bfb27ec5f952'::UUID",
        "6191013c-ce05-485a-808e-bfb27ec5f952",
    ),
    ("'\\x00\\xFF'::BLOB", "AP8="),
    ("DATE '2024-02-29'", "2024-02-29"),
    ("DATE '12024-02-29'", "12024-02-29"),
    ("'infinity'::DATE", "infinity"),
    ("DATE '0044-03-15 (BC)'", "0044-03-15 (BC)"),
    ("TIME '12:34:56.5'", "12:34:56.5"),
    ("'12:34:56+02'::TIMETZ", "12:34:56+02:00"),
    ("'12:34:56.5-05:30'::TIMETZ", "12:34:56.5-05:30"),
    ("TIMESTAMP '2024-02-29 01:02:03.000004'", "2024-02-29T01:02:03.000004"),
    ("TIMESTAMP_NS '2024-02-29 01:02:03.123456789'", "2024-02-29T01:02:03.123456789"),
    ("'-infinity'::TIMESTAMP", "-infinity"),
    ("TIMESTAMPTZ '2024-02-29 01:02:03+05:30'", "2024-02-28T19:32:03+00:00"),
    ("INTERVAL '1 month 2 days 3 hours'", "1 month 2 days 03:00:00"),
    ("""'{"a": [1, 2.5, null]}'::JSON""", {"a": [1, 2.5, None]}),
    ("""'[1e999]'::JSON""", ["1e999"]),
    (f"'[{10**30}]'::JSON", [10**30]),
    ("""(repeat('[', 2000) || repeat(']', 2000))::JSON""", "[" * 2000 + "]" * 2000),
    ("""'{"a": 1}'::JSON::VARIANT""", {"a": 1}),
    ("[1, NULL, 3]", [1, None, 3]),
    ("[[], [DATE '2024-01-01']]", [[], ["2024-01-01"]]),
    ("[1, 2]::INTEGER[2]", [1, 2]),
    ("{'a': 1.5::FLOAT, 'b': [now()][2:]}", {"a": 1.5, "b": []}),
    (
        "{'it''s': NULL, 'T': TIMESTAMPTZ '1970-01-01 00:00:00+00'}",
        {"it's": None, "T": "1970-01-01T00:00:00+00:00"},
    ),
    ("row(1, INTERVAL 1 DAY)", [1, "1 day"]),
    ("map {'a': 1, 'b': NULL}", {"a": 1, "b": None}),
    ("map {1: DATE '1970-01-01'}", {"1": "1970-01-01"}),
    ("map {true: 'x'}", {"true": "x"}),
    ("map {[1, 2]: 'x'}", [{"key": [1, 2], "value": "x"}]),
    ("union_value(n := 2)", 2),
    ("union_value(t := DATE '1970-01-01')", "1970-01-01"),
    ("'POINT (1 2)'::GEOMETRY", "POINT (1 2)"),
]


@pytest.mark.parametrize(("sql", "value"), VALUES, ids=[sql for sql, _ in VALUES])
def test_a_value_is_json(duck: Duck, sql: str, value: Any) -> None:
    assert duck.rows(f"SELECT {sql} AS x") == [[value]]


def test_rows_are_mappings_in_the_order_of_the_columns(duck: Duck) -> None:
    outcome = duck.run("SELECT 2 AS b, 1 AS a UNION ALL SELECT 4, 3 ORDER BY a DESC")

    assert outcome.result == {
        "rows": [{"b": 4, "a": 3}, {"b": 2, "a": 1}],
        "columns": ["b", "a"],
        "rowcount": 2,
    }
    assert list(outcome.result["rows"][0]) == ["b", "a"]


def test_the_order_survives_where_a_column_is_cast(duck: Duck) -> None:
    dates = "SELECT DATE '2024-01-01' + i::INTEGER AS d FROM range(5000) t(i)"

    rows = duck.rows(f"{dates} ORDER BY hash(i)")

    days = duck.rows(f"SELECT d::VARCHAR FROM ({dates} ORDER BY hash(i))")
    assert rows == days


def test_no_rows_still_have_columns(duck: Duck) -> None:
    outcome = duck.run("SELECT 1 AS a, now() AS t WHERE false")

    assert outcome.result == {"rows": [], "columns": ["a", "t"], "rowcount": 0}


def test_columns_of_one_name_are_numbered(duck: Duck) -> None:
    outcome = duck.run("SELECT 1 AS a, 2 AS a, 3 AS a_2, DATE '2024-01-01' AS a")

    assert outcome.result["columns"] == ["a", "a_3", "a_2", "a_4"]
    assert list(outcome.result["rows"][0].values()) == [1, 2, 3, "2024-01-01"]


@pytest.mark.parametrize(
    ("sql", "count"),
    [
        ("CREATE TABLE u (a INTEGER)", 0),
        ("CREATE TABLE u AS FROM range(7)", 7),
        ("INSERT INTO t VALUES (4), (5)", 2),
        ("UPDATE t SET a = a + 1 WHERE a > 1", 2),
        ("DELETE FROM t", 3),
        ("COPY t TO 't.csv'", 3),
        ("SET VARIABLE x = 1", 0),
        ("COMMIT; CHECKPOINT", 0),
    ],
)
def test_what_returns_no_rows_counts_them(duck: Duck, sql: str, count: int) -> None:
    begin = "BEGIN; " if "COMMIT" in sql else ""

    outcome = duck.run(f"{begin}CREATE TABLE t AS FROM range(1, 4) r(a); {sql}")

    assert outcome.result == {"rows": [], "columns": [], "rowcount": count}


def test_returning_returns_rows(duck: Duck) -> None:
    outcome = duck.run(
        "CREATE TABLE t (a INTEGER, d DATE);"
        "INSERT INTO t VALUES (1, '2024-01-01'), (2, NULL) RETURNING d, a + 1 AS b"
    )

    assert outcome.result["rows"] == [{"d": "2024-01-01", "b": 2}, {"d": None, "b": 3}]


def test_returning_what_cannot_be_read_is_refused_and_undone(duck: Duck) -> None:
    duck.run("CREATE TABLE t (moment TIMESTAMPTZ)", database="a.duckdb")

    outcome = duck.run(
        "INSERT INTO t VALUES (now()) RETURNING moment", database="a.duckdb"
    )

    assert outcome.error is not None
    assert outcome.error.kind == "duckdb.unsupported"
    assert '"moment"::VARCHAR' in outcome.error.message
    assert duck.rows("SELECT count(*) FROM t", database="a.duckdb") == [[0]]


@pytest.mark.parametrize(
    "sql",
    [
        "PIVOT (SELECT 1 AS a, TIMESTAMPTZ '2024-01-01 00:00:00+00' AS b) ON a "
        "USING max(b)",
        "CREATE TABLE t (a INTEGER); WITH n AS (INSERT INTO t VALUES (1) RETURNING a) "
        "SELECT * FROM n",
        "SUMMARIZE SELECT 1 AS a",
        "EXPLAIN SELECT 1",
        "PRAGMA version",
        "PREPARE p AS SELECT $1 + 1 AS x; EXECUTE p(41)",
        "SELECT 1 AS a; -- the end",
        "SELECT now() AS a; -- the end; /* really */ ;",
        "CREATE SEQUENCE s; SELECT nextval('s') AS a",
    ],
)
def test_other_statements_return_their_rows(duck: Duck, sql: str) -> None:
    outcome = duck.run(sql)

    assert outcome.error is None
    assert outcome.result["rowcount"] == 1


def test_a_sequence_is_asked_once(duck: Duck) -> None:
    assert duck.rows("CREATE SEQUENCE s; SELECT nextval('s')") == [[1]]


@pytest.mark.parametrize(
    ("spec", "sql"),
    [
        ({"max_rows": 10}, "FROM range(11)"),
        ({"max_rows": 10}, "FROM range(1_000_000_000_000)"),
        ({"max_bytes": "1KiB"}, "SELECT repeat('x', 1025)"),
        ({}, "SELECT repeat('x', 1000) AS x FROM range(1_000_000_000)"),
    ],
)
def test_too_large_a_result_is_refused_with_advice(
    duck: Duck, spec: dict[str, Any], sql: str
) -> None:
    outcome = duck.run(sql, spec)

    assert outcome.error is not None
    assert outcome.error.kind == "duckdb.too_large"
    for advice in ("spec.max_", "aggregate", "export"):
        assert advice in outcome.error.message


def test_just_as_many_rows_as_allowed(duck: Duck) -> None:
    assert duck.run("FROM range(10)", {"max_rows": 10}).result["rowcount"] == 10


def test_results_of_the_statements_before_the_last(duck: Duck) -> None:
    command = (
        "CREATE TABLE t (n INT); INSERT INTO t VALUES (1), (2);"
        "SELECT n FROM t ORDER BY n; SELECT sum(n) AS s FROM t"
    )
    whole = duck.run(command, {"statements": True}).result
    plain = duck.run(command).result

    assert whole.pop("before") == [
        {"rows": [], "columns": [], "rowcount": 0},
        {"rows": [], "columns": [], "rowcount": 2},
        {"rows": [{"n": 1}, {"n": 2}], "columns": ["n"], "rowcount": 2},
    ]
    assert whole == plain == {"rows": [{"s": 3}], "columns": ["s"], "rowcount": 1}


def test_one_before_the_last_may_not_be_large(duck: Duck) -> None:
    command = "SELECT repeat('x', 100) FROM range(20000); SELECT 1"
    outcome = duck.run(command, {"statements": True})

    assert outcome.error is not None
    assert outcome.error.kind == "duckdb.too_large"
