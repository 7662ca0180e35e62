"""The program of DuckDB's process, called without a process: scripts, types, files."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import duckdb
import pytest

from noetl.adapters.tools.duckdb.noetl_duck import rows as rows_module
from noetl.adapters.tools.duckdb.noetl_duck.errors import Place, describe
from noetl.adapters.tools.duckdb.noetl_duck.main import answer
from noetl.adapters.tools.duckdb.noetl_duck.values import moment, parse_json, to_json

pytestmark = pytest.mark.spec("PIPE-14")


class Program:
    """Requests with defaults, in a folder of the test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def ask(self, command: str, **changes: Any) -> dict[str, Any]:
        request = {
            "command": command,
            "params": None,
            "database": None,
            "read_only": False,
            "memory": 1 << 28,
            "threads": 2,
            "scratch": str(self.folder),
            "extensions": [],
            "attach": {},
            "tables": [],
            "roots": [str(self.folder)],
            "files": [],
            "export": None,
            "max_rows": None,
            "max_bytes": 1 << 24,
            "rows_file": None,
            "each": False,
            **changes,
        }
        answered: dict[str, Any] = json.loads(answer(request))
        return answered

    def rows(self, command: str, **changes: Any) -> list[Any]:
        found = self.ask(command, **changes)
        assert "result" in found, found
        return [list(row.values()) for row in found["result"]["rows"]]

    def refusal(self, command: str, **changes: Any) -> str:
        found = self.ask(command, **changes)
        fault = found.get("refusal") or found["fault"]
        return str(fault.get("message") or fault["said"])

    def write(self, name: str, text: str) -> str:
        (self.folder / name).write_text(text)
        return str(self.folder / name)


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)


@pytest.mark.parametrize(
    ("sql", "params", "rows"),
    [
        ("SELECT ? + ?", [40, 2], [[42]]),
        ("SELECT $2, $1", [1, 2], [[2, 1]]),
        ("SELECT $a", {"a": "x"}, [["x"]]),
        ("CREATE TABLE t (a INT); INSERT INTO t VALUES (?); SELECT ?", [1, 2], [[2]]),
        ("SELECT 1; -- the end", None, [[1]]),
        ("BEGIN; CREATE TABLE t (a INT); COMMIT; SELECT 7", None, [[7]]),
        ("CREATE TABLE t (a INT); INSERT INTO t VALUES (1) RETURNING a", None, [[1]]),
        ("EXPLAIN SELECT 1", None, None),
        ("PRAGMA version", None, None),
        ("ATTACH ':memory:' AS m; SELECT 3", None, [[3]]),
        ("CREATE TABLE t (a INT)", None, []),
    ],
)
def test_scripts(program: Program, sql: str, params: Any, rows: Any) -> None:
    found = program.rows(sql, params=params)

    assert found == rows if rows is not None else found


@pytest.mark.parametrize(
    ("sql", "params", "said"),
    [
        ("SELECT ?", None, "so it must be a list"),
        ("SELECT $a", [1], "so it must be a mapping"),
        ("SELECT $a", {"b": 1}, "needs $a, which is missing"),
        ("SELECT $a", {"a": 1, "b": 1}, "no statement has $b"),
        ("SELECT ?, ?", [1], "needs at least 2"),
        ("SELECT ?", [1, 2], "the SQL takes 1"),
        ("", None, "command is empty"),
        ("SELECT * FROM nowhere", None, "nowhere"),
        ("SELECT 1; SELEC 2", None, "SELEC"),
        ("BEGIN; CREATE TABLE t (a INT)", None, "was begun, but not committed"),
        ("ATTACH '/etc/x.db' AS x", None, "leads out of the allowed folders"),
        ("ATTACH 'a' || 'b' AS x", None, "ATTACH needs the path of a file"),
        ("CREATE TABLE t (a TIMESTAMPTZ); "
         "INSERT INTO t VALUES (now()) RETURNING a", None, "cannot be returned by"),
    ],
)  # fmt: skip
def test_scripts_that_are_refused(
    program: Program, sql: str, params: Any, said: str
) -> None:
    assert said in program.refusal(sql, params=params)


@pytest.mark.parametrize(
    ("sql", "value"),
    [
        ("TIMESTAMPTZ '2024-02-29 10:00:00+00'", "2024-02-29T10:00:00+00:00"),
        ("TIMESTAMP '2024-02-29 10:00:00'", "2024-02-29T10:00:00"),
        ("DATE '2024-02-29'", "2024-02-29"),
        ("TIME '10:00:00'", "10:00:00"),
        ("TIMETZ '10:00:00+02'", "10:00:00+02:00"),
        ("INTERVAL 1 MONTH", "1 month"),
        ("'infinity'::DATE", "infinity"),
        ("1.5::DECIMAL(4, 2)", 1.5),
        ("1.10::DECIMAL(4, 2)", 1.1),
        ("3::DECIMAL(4, 0)", 3),
        ("12345678901234567890.123456789::DECIMAL(38, 9)",
         "12345678901234567890.123456789"),
        ("170141183460469231731687303715884105727::HUGEINT",
         "170141183460469231731687303715884105727"),
        ("1.1::FLOAT", 1.1),
        ("16777217::FLOAT", 16777216.0),
        ("'nan'::FLOAT", "NaN"),
        ("'nan'::DOUBLE", "NaN"),
        ("'-inf'::DOUBLE", "-Infinity"),
        ("'inf'::DOUBLE", "Infinity"),
        ("'ab'::BLOB", "YWI="),
        ("NULL", None),
        ("uuid '0192a1e1-62fa-71d5-ac5d-47da0b2bac17'",
         "0192a1e1-62fa-71d5-ac5d-47da0b2bac17"),
        ("[1, 2]", [1, 2]),
        ("[1.5::DECIMAL(4, 1), NULL]", [1.5, None]),
        ("{'a': 1, 'b': DATE '2024-01-01'}", {"a": 1, "b": "2024-01-01"}),
        ("row(1, 'x')", [1, "x"]),
        ("MAP {'a': 1}", {"a": 1}),
        ("MAP {1: 'x'}", {"1": "x"}),
        ("MAP {[1]: 'x'}", [{"key": [1], "value": "x"}]),
        ("'{\"a\": 1}'::JSON", {"a": 1}),
        ("union_value(n := 1)", 1),
        ("union_value(d := DATE '2024-01-01')", "2024-01-01"),
        ("[1, 2]::INT[2]", [1, 2]),
        ("true", True),
    ],
)  # fmt: skip
def test_types(program: Program, sql: str, value: Any) -> None:
    assert program.rows(f"SELECT {sql} AS v") == [[value]]


def test_values_of_the_driver_become_json() -> None:
    class Moment:
        def isoformat(self) -> str:
            return "2024-01-01"

    assert to_json({1: (b"a", [Moment()], 2**70, None)}) == {
        "1": ["YQ==", ["2024-01-01"], str(2**70), None],
    }
    assert to_json(object())
    assert moment(Moment()) == "2024-01-01"
    assert parse_json("[1e999]") == ["1e999"]
    deep = "[" * 100_000
    assert parse_json(deep + "]" * 100_000) == deep + "]" * 100_000
    assert parse_json("[1e5]") == [1e5]


def test_columns_with_one_name_are_numbered(program: Program) -> None:
    found = program.ask("SELECT 1 AS a, 2 AS a, 3 AS a_2, DATE '2024-01-01' AS a")

    assert found["result"]["columns"] == ["a", "a_3", "a_2", "a_4"]


def test_a_result_is_limited(program: Program) -> None:
    sql = "SELECT range AS n FROM range(10)"

    assert "more than 3 rows" in program.refusal(sql, max_rows=3)
    assert "more than 20 bytes" in program.refusal(sql, max_bytes=20)


def test_a_large_result_goes_to_a_file(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows_module, "HANDED_OVER", 10)
    file = program.folder / "rows"

    found = program.ask("SELECT range AS n FROM range(3000)", rows_file=str(file))

    assert found["result"]["stored"] == "json"
    assert len(file.read_text().splitlines()) == 3000


def test_each_statement_may_have_its_result(program: Program) -> None:
    sql = "CREATE TABLE t AS SELECT 1 AS a; SELECT a FROM t; SELECT 2 AS b"

    result = program.ask(sql, each=True)["result"]

    assert [each["rowcount"] for each in result["before"]] == [1, 1]
    assert result["rows"] == [{"b": 2}]


@pytest.mark.parametrize("form", ["csv", "json", "ndjson", "parquet"])
def test_a_result_is_exported(program: Program, form: str) -> None:
    part, path = program.folder / "part", program.folder / f"out.{form}"
    export = {"path": str(path), "part": str(part), "format": form}

    made = program.ask("SELECT 1 AS a", export=export)["result"]
    stored = program.ask(
        "SELECT 1 AS a", export={"path": None, "part": str(part), "format": form}
    )["result"]
    table = {"name": "t", "file": str(path), "format": form, "columns": None}

    assert (made["rows"], made["path"]) == (1, str(path))
    assert (stored["rowcount"], stored["stored"]) == (1, form)
    assert program.rows("FROM t", tables=[{**table, "is_large": False}]) == [[1]]
    assert "export needs a query" in program.refusal(
        "CREATE TABLE t (a INT)", export=export
    )
    gone = {
        "path": str(program.folder / "none" / "x"),
        "part": str(part),
        "format": form,
    }
    assert program.refusal("SELECT 1", export=gone).startswith("export: ")


@pytest.mark.parametrize("is_large", [False, True])
@pytest.mark.parametrize(
    ("rows", "columns", "sql", "found"),
    [
        ([{"a": 1, "b": "x"}, {"a": 2}], None, "FROM t", [[1, "x"], [2, None]]),
        ([1, 2], None, "SELECT sum(value) FROM t", [[3]]),
        ([{"a": {"b": [7]}}], None, "SELECT a.b[1] FROM t", [[7]]),
        ([{"a": None}], None, "FROM t", [[None]]),
        ([{"a": "1"}], {"a": "INTEGER"}, "FROM t", [[1]]),
        ([{"a": 1}], ["a", "b"], "FROM t", [[1, None]]),
    ],
)
def test_rows_are_a_table(
    program: Program, rows: Any, columns: Any, sql: str, found: Any, *, is_large: bool
) -> None:
    file = program.write("rows.json", json.dumps(rows))
    table = {"name": "t", "file": file, "format": None, "columns": columns}

    assert program.rows(sql, tables=[{**table, "is_large": is_large}]) == found


@pytest.mark.parametrize(
    ("rows", "columns", "said"),
    [
        ([], None, "its columns are not known"),
        ([{"a": 1, "A": 2}], None, "the same name in SQL"),
        ([{"a": "x"}], {"a": "INTEGER"}, "x"),
        ([{"a": "x", "b": 2**80}], {"a": "INTEGER", "b": "HUGEINT"}, "x"),
    ],
)
def test_rows_that_are_not_a_table(
    program: Program, rows: Any, columns: Any, said: str
) -> None:
    file = program.write("rows.json", json.dumps(rows))
    table = {"name": "t", "file": file, "format": None, "columns": columns}

    assert said in program.refusal("FROM t", tables=[{**table, "is_large": False}])


def test_whole_numbers_beyond_64_bits_keep_their_digits(program: Program) -> None:
    file = program.write("rows.json", json.dumps([{"a": {"b": [2**63]}}]))
    table = {"name": "t", "file": file, "format": None, "columns": None}

    found = program.rows("SELECT a.b[1] FROM t", tables=[{**table, "is_large": False}])

    assert found == [[str(2**63)]]


def test_databases_are_attached_and_extensions_are_not_fetched(
    program: Program,
) -> None:
    path = str(program.folder / "other.db")
    duckdb.connect(path).execute("CREATE TABLE t AS SELECT 5 AS a").close()
    other = {"path": path, "read_only": True, "lake": None}

    assert program.rows("FROM o.t", attach={"o": other}, extensions=["json"]) == [[5]]
    lake = {**other, "lake": str(program.folder)}
    assert program.ask("SELECT 1", attach={"o": lake}).keys() != {"result"}
    assert "is not installed" in program.refusal("SELECT 1", extensions=["nosuch"])
    inside = f"ATTACH '{program.folder}/new.db' AS n; CREATE TABLE n.t (a INT)"
    assert program.ask(inside)


def test_the_place_of_an_error_is_known(program: Program) -> None:
    [fault] = program.ask("SELECT 1;\nSELECT nothing FROM range(1)").values()
    assert fault["details"] == {"statement": 2, "line": 2, "position": 8}
    plain = describe(duckdb.Error("it broke"), Place("SELECT 1"))

    assert (plain["said"], plain["details"]) == ("it broke", {})
