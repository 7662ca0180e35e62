"""Earlier results as tables, and results as files."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from ducks import Duck

from noetl.engine.values.spilling import fit

pytestmark = pytest.mark.spec("PIPE-14")

ORDERS = [
    {"id": 1, "who": "Ada", "paid": True, "lines": [{"n": 2, "at": 1.5}]},
    {"id": 2, "who": None, "paid": False, "lines": []},
]


def reference(duck: Duck, value: Any) -> dict[str, Any]:
    """As the engine makes it of a value that is too large for an event."""
    payload, blobs = fit({"result": value}, 1)
    for body in blobs.values():
        duck.together(lambda body=body: duck.blobs.put(body))
    found: dict[str, Any] = payload["result"]
    assert found["store"] == "noetl"
    return found


def large(count: int = 5000) -> list[dict[str, Any]]:
    return [{"id": number, "name": f"n{number}"} for number in range(count)]


def test_a_list_is_a_table(duck: Duck) -> None:
    rows = duck.rows(
        "SELECT id, who, paid, len(lines), lines[1].n * lines[1].at FROM orders",
        tables={"orders": ORDERS},
    )

    assert rows == [[1, "Ada", True, 1, 3.0], [2, None, False, 0, None]]


def test_tables_can_be_joined_and_changed(duck: Duck) -> None:
    rows = duck.rows(
        "UPDATE a SET x = x + 1; SELECT a.x, b.y FROM a JOIN b USING (id)",
        tables={"a": [{"id": 1, "x": 1}], "b": [{"id": 1, "y": 2}, {"id": 3, "y": 4}]},
    )

    assert rows == [[2, 2]]


def test_a_file_that_is_only_read_meets_a_list(duck: Duck) -> None:
    file = {"database": "a.duckdb"}
    duck.run("CREATE TABLE t AS SELECT 1 AS id, 'x' AS name", **file)
    tables = {"given": [{"id": 1, "k": "a"}, {"id": 2, "k": "b"}]}

    rows = duck.rows(
        "SELECT name, k FROM t JOIN given USING (id)", tables=tables, **file
    )
    wide = duck.rows(
        "PIVOT given ON k USING count(*) GROUP BY id", tables=tables, **file
    )

    assert rows == [["x", "a"]]
    assert sorted(wide) == [[1, 1, 0], [2, 0, 1]]


@pytest.mark.parametrize(
    ("values", "types"),
    [
        ([1, 2], "BIGINT"),
        ([-1, 2], "BIGINT"),
        ([1, 2.5], "DOUBLE"),
        ([2**63, -1], "HUGEINT"),
        ([True, None], "BOOLEAN"),
        (["2024-01-01", "12:00"], "VARCHAR"),
        (["2024-01-01", "2024-01-02"], "VARCHAR"),
        ([None, None], "VARCHAR"),
        ([1, "x"], "JSON"),
        ([[1], []], "BIGINT[]"),
        ([{"k": 1}, {"l": "x"}], "STRUCT(k BIGINT, l VARCHAR)"),
        ([[{"k": [1.5]}]], "STRUCT(k DOUBLE[])[]"),
        ([[], []], "VARCHAR[]"),
        ([{}, {"k": 1}], "STRUCT(k BIGINT)"),
    ],
)
def test_types_are_those_of_all_rows(duck: Duck, values: list[Any], types: str) -> None:
    rows = [{"x": value} for value in values]

    assert duck.rows("SELECT DISTINCT typeof(x) FROM t", tables={"t": rows}) == [
        [types]
    ]


def test_a_column_that_only_a_late_row_has(duck: Duck) -> None:
    rows: list[dict[str, Any]] = [{"a": 1}] * 30_000
    rows[29_999] = {"a": 1.5, "late": "x"}

    found = duck.rows("SELECT count(late), max(a) FROM t", tables={"t": rows})

    assert found == [[1, 1.5]]


def test_values_other_than_mappings_have_one_column(duck: Duck) -> None:
    sql = "SELECT value FROM t ORDER BY value"

    assert duck.rows(sql, tables={"t": [3, 1, 2]}) == [[1], [2], [3]]
    assert duck.rows(sql, tables={"t": [["a"], ["b"]]}) == [[["a"]], [["b"]]]


def test_odd_names_are_only_names(duck: Duck) -> None:
    rows = [{'a "b"; DROP': "it's", "select": 2, "ä.ö": 3}]

    found = duck.run('FROM "my \'table"', tables={"my 'table": rows})

    assert found.result["rows"] == rows


@pytest.mark.parametrize(
    "columns",
    [{"id": "BIGINT", "day": "DATE", "tags": "VARCHAR[]"}, ["id", "day", "tags"]],
)
def test_an_empty_list_needs_columns(duck: Duck, columns: Any) -> None:
    refused = duck.run("FROM t", tables={"t": []})
    given = duck.run("FROM t", tables={"t": {"rows": [], "columns": columns}})

    assert refused.error is not None
    assert refused.error.kind == "tool.contract"
    assert "columns: {id: BIGINT" in refused.error.message
    assert given.result == {"rows": [], "columns": ["id", "day", "tags"], "rowcount": 0}


def test_columns_choose_and_type(duck: Duck) -> None:
    rows = [{"id": "7", "day": "2024-02-29", "more": 1}]
    columns = {"day": "DATE", "id": "INTEGER", "missing": "DECIMAL(9, 2)"}

    found = duck.rows(
        "SELECT *, typeof(day) FROM t", tables={"t": {"rows": rows, "columns": columns}}
    )

    assert found == [["2024-02-29", 7, None, "DATE"]]


def test_a_result_is_a_table_as_it_is(duck: Duck) -> None:
    result = duck.run("SELECT 1 AS b, 'x' AS a").result

    again = duck.run("FROM t", tables={"t": result})

    assert again.result == result


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (5, "tables.t must be a list of rows"),
        ({"rows": 5}, "tables.t must be a list of rows"),
        ({"rows": [], "columns": 5}, "tables.t.columns must be names"),
        (
            {"rows": [], "columns": {"a": "1); DROP"}},
            "tables.t.columns.a is not an SQL type",
        ),
        ([{"a": 1, "A": 2}], "tables.t has both 'a' and 'A'"),
        ({"path": "x.exe"}, "tables.t.format must be one of"),
    ],
)
def test_an_unknown_table_is_reported(duck: Duck, table: Any, said: str) -> None:
    outcome = duck.run("FROM t", tables={"t": table})

    assert outcome.error is not None
    assert outcome.error.kind == "tool.contract"
    assert said in outcome.error.message


def test_a_value_that_does_not_fit_its_column_is_not_quoted(duck: Duck) -> None:
    table = {"rows": [{"a": "hunter2"}], "columns": {"a": "INTEGER"}}

    outcome = duck.run("FROM t", tables={"t": table})

    assert outcome.error is not None
    assert outcome.error.kind == "duckdb.data"
    assert outcome.error.message.startswith("tables.t: ")
    assert "hunter2" not in repr(outcome)


@pytest.mark.spec("S-48")
def test_a_reference_is_read_from_the_store_as_a_file(duck: Duck) -> None:
    refers = reference(duck, large())

    for table in (refers, {"rows": refers}):
        rows = duck.rows("SELECT count(*), max(id) FROM t", tables={"t": table})
        assert rows == [[5000, 4999]]


@pytest.mark.spec("S-48")
def test_a_reference_to_a_whole_result_is_its_rows(duck: Duck) -> None:
    result = {"rows": large(), "columns": ["id", "name"], "rowcount": 5000}
    refers = reference(duck, result)

    rows = duck.rows("SELECT sum(id) FROM t", tables={"t": refers})

    assert rows == [[sum(range(5000))]]


@pytest.mark.spec("S-48")
def test_a_broken_reference_is_reported(duck: Duck) -> None:
    refers = reference(duck, large(4000))
    file = duck.home / "results" / refers["key"][:2] / refers["key"][2:]
    file.write_bytes(file.read_bytes()[:-1] + b" ")
    corrupt = duck.run("FROM t", tables={"t": refers})
    file.unlink()
    gone = duck.run("FROM t", tables={"t": refers})
    file.symlink_to("/etc/passwd")
    link = duck.run("FROM t", tables={"t": refers})

    kinds = [outcome.error and outcome.error.kind for outcome in (corrupt, gone, link)]
    assert kinds == ["ref.corrupt", "ref.gone", "ref.gone"]


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        ("../../etc/passwd", "tool.contract"),
        ("/etc/passwd", "tool.contract"),
        ("", "tool.contract"),
        ("0" * 64, "ref.gone"),
    ],
)
def test_a_forged_reference_leads_to_no_file(duck: Duck, key: str, kind: str) -> None:
    refers = {"store": "noetl", "key": key, "size": 9}

    outcome = duck.run("FROM t", tables={"t": refers})

    assert outcome.error is not None
    assert outcome.error.kind == kind


def test_a_reference_to_the_log_is_not_read_as_a_file(duck: Duck) -> None:
    refers = {"store": "noetl", "key": "log:e-s-1", "range": "1-9", "size": 9}

    outcome = duck.run("FROM t", tables={"t": refers})

    assert outcome.error is not None
    assert "leave the filter ref out" in outcome.error.message


@pytest.mark.parametrize(
    ("export", "form"),
    [
        ("out.parquet", "parquet"),
        ("out.csv", "csv"),
        ("out.json", "json"),
        ("out.ndjson", "ndjson"),
        ({"path": "out.data", "format": "parquet"}, "parquet"),
    ],
)
def test_an_export_is_a_file_and_a_table_again(
    duck: Duck, export: Any, form: str
) -> None:
    outcome = duck.run(
        "SELECT i, 'it''s ' || i AS s FROM range($n) t(i)",
        params={"n": 3},
        export=export,
    )

    path = duck.folder / (export if isinstance(export, str) else export["path"])
    size = path.stat().st_size
    expected = {"path": str(path), "format": form, "rows": 3, "size": size}
    assert outcome.result == expected
    again = duck.rows("FROM t ORDER BY i", tables={"t": outcome.result})
    assert again == [[0, "it's 0"], [1, "it's 1"], [2, "it's 2"]]
    assert list(duck.folder.iterdir()) == [path]


def test_json_exports_are_what_they_say(duck: Duck) -> None:
    duck.run("FROM range(2) t(i)", export="a.json")
    duck.run("FROM range(2) t(i)", export="a.jsonl")

    assert json.loads((duck.folder / "a.json").read_text()) == [{"i": 0}, {"i": 1}]
    lines = (duck.folder / "a.jsonl").read_text().splitlines()
    assert [json.loads(line) for line in lines] == [{"i": 0}, {"i": 1}]


def test_an_export_replaces_what_was_there_only_when_it_is_whole(duck: Duck) -> None:
    file = duck.folder / "a.csv"
    file.write_text("old")

    failed = duck.run(
        "SELECT CASE WHEN i = 999999 THEN error('late') ELSE i END "
        "FROM range(1_000_000) t(i)",
        export="a.csv",
    )
    assert failed.status == "error"
    assert file.read_text() == "old"
    assert list(duck.folder.iterdir()) == [file]
    duck.run("SELECT 1 AS a", export="a.csv")
    assert file.read_text() == "a\n1\n"


def test_an_export_may_be_larger_than_a_result(duck: Duck) -> None:
    spec = {"max_rows": 1}

    outcome = duck.run("FROM range(100_000)", spec, export="a.parquet")

    assert outcome.result["rows"] == 100_000


def test_an_export_to_an_unusable_path_is_reported(duck: Duck) -> None:
    (duck.folder / "a.csv").mkdir()

    taken = duck.run("SELECT 1", export="a.csv")
    missing = duck.run("SELECT 1", export="no/where.csv")

    for outcome in (taken, missing):
        assert outcome.error is not None
        assert outcome.error.kind == "duckdb.io"
    assert [file.name for file in duck.folder.iterdir()] == ["a.csv"]


def test_only_a_query_can_be_exported(duck: Duck) -> None:
    outcome = duck.run("CREATE TABLE t (a INTEGER)", export="a.csv")

    assert outcome.error is not None
    assert outcome.error.message == "export needs a query as the last statement"


def test_an_error_in_an_export_says_where(duck: Duck) -> None:
    outcome = duck.run("SELECT\n  nope", export="a.csv")

    assert outcome.error is not None
    assert outcome.error.details == {"line": 2, "position": 3}


def test_many_rows_come_through(duck: Duck) -> None:
    rows = [{"id": n, "text": "x" * 100} for n in range(100_000)]
    assert len(msgspec.json.encode(rows)) > 10_000_000

    found = duck.run("SELECT * FROM t ORDER BY id", tables={"t": rows})

    assert found.result["rows"] == rows
