"""Statements, their parameters, transactions and databases."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest
from ducks import Duck

from noetl.adapters.tools.duckdb import client
from noetl.engine.tasks.outcome import Outcome
from noetl.extras import install_command

pytestmark = pytest.mark.spec("PIPE-14")

FILE = {"database": "data.duckdb"}


@pytest.mark.parametrize(
    ("sql", "params", "rows"),
    [
        pytest.param("SELECT ? + ?", [40, 2], [[42]], id="?"),
        pytest.param("SELECT $2, $1, $2", [1, 2], [[2, 1, 2]], id="by number"),
        pytest.param("SELECT $a || $b", {"a": "x", "b": "y"}, [["xy"]], id="by name"),
        pytest.param("SELECT '?', '$1', ?", [1], [["?", "$1", 1]], id="in a text"),
        pytest.param(
            "CREATE TABLE t (a INTEGER); INSERT INTO t VALUES (?), (?); "
            "SELECT a FROM t WHERE a > ?",
            [1, 2, 1],
            [[2]],
            id="? goes on over statements",
        ),
        pytest.param(
            "CREATE TABLE t AS SELECT $1 AS a; SELECT a, $1 + $2 FROM t",
            [1, 2],
            [[1, 3]],
            id="numbers start anew in each statement",
        ),
        pytest.param(
            "CREATE TABLE t AS SELECT $a AS a; SELECT a, $a, $b FROM t",
            {"a": 1, "b": None},
            [[1, 1, None]],
            id="names serve all statements",
        ),
        pytest.param("SELECT $1", ["'; DROP TABLE t"], [["'; DROP TABLE t"]], id="'"),
        pytest.param(
            "SELECT ($1).a[2], $1", [{"a": [1, 2]}], [[2, {"a": [1, 2]}]], id="{}"
        ),
        pytest.param("SELECT ?::DATE", ["2024-02-29"], [["2024-02-29"]], id="a cast"),
        pytest.param("SELECT ?", [2**100], [[str(2**100)]], id="a large number"),
        pytest.param(
            "SELECT now() < now() + ?::INTERVAL", ["1 day"], [[True]], id="casts"
        ),
    ],
)
def test_values_are_bound(duck: Duck, sql: str, params: Any, rows: Any) -> None:
    assert duck.rows(sql, params=params) == rows


@pytest.mark.parametrize(
    ("sql", "params", "said"),
    [
        ("SELECT ?", None, "so it must be a list"),
        ("SELECT ?", {"a": 1}, "so it must be a list"),
        ("SELECT $a", [1], "so it must be a mapping"),
        ("SELECT $a", {"b": 1}, "needs $a, which is missing"),
        ("SELECT $a", {"a": 1, "b": 1}, "no statement has $b"),
        ("SELECT ?, ?", [1], "1 values are given, but the SQL needs at least 2"),
        ("SELECT ?; SELECT ?", [1], "needs at least 2"),
        ("SELECT ?", [1, 2], "2 values are given, but the SQL takes 1"),
        ("SELECT $2", [1, 2], "2 values are given, but the SQL takes 1"),
        ("SELECT 1", {"a": 1}, "no statement has $a"),
        ("SELECT 1", "text", "params must be a list (?) or mapping ($name)"),
    ],
)
def test_unfitting_params_are_reported(
    duck: Duck, sql: str, params: Any, said: str
) -> None:
    outcome = duck.run(sql, params=params)

    assert outcome.error is not None
    assert outcome.error.kind == "tool.contract"
    assert said in outcome.error.message


@pytest.mark.parametrize("sql", ["", "  ;; ", "-- nothing"])
def test_a_call_without_a_statement_is_refused(duck: Duck, sql: str) -> None:
    outcome = duck.run(sql)

    assert outcome.error is not None
    assert outcome.error.message == "command is empty: write an SQL statement"


def test_query_is_another_name_of_command(duck: Duck) -> None:
    assert duck.rows(None, query="SELECT 1") == [[1]]


def test_memory_is_empty_in_every_call(duck: Duck) -> None:
    for database in (None, ":memory:"):
        duck.run("CREATE TABLE t AS SELECT 1", database=database)
        outcome = duck.run("FROM t", database=database)
        assert outcome.error is not None
        assert outcome.error.kind == "duckdb.undefined"


def test_a_database_file_is_stored_below_the_playbooks_folder(duck: Duck) -> None:
    duck.run("CREATE TABLE t AS SELECT 1 AS a", **FILE)
    duck.run("INSERT INTO t VALUES (2)", **FILE)

    assert duck.rows("SELECT a FROM t ORDER BY a", **FILE) == [[1], [2]]
    assert [file.name for file in duck.folder.iterdir()] == ["data.duckdb"]


def test_a_missing_file_is_not_made_by_reading(duck: Duck) -> None:
    outcome = duck.run("SELECT 1", **FILE)

    assert outcome.error is not None
    assert outcome.error.kind == "duckdb.io"
    assert outcome.error.message.startswith("database: ")
    assert list(duck.folder.iterdir()) == []


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT INTO t VALUES (2); INSERT INTO t VALUES (1)",
        "INSERT INTO t VALUES (2); SELECT nope",
        "INSERT INTO t VALUES (2); SELECT error('stop')",
        "INSERT INTO t VALUES (2), (1)",
        "INSERT INTO t VALUES (2) RETURNING repeat('x', 2000)",
        "BEGIN; INSERT INTO t VALUES (2)",
    ],
)
def test_all_statements_or_none(duck: Duck, sql: str) -> None:
    duck.run("CREATE TABLE t (a INTEGER PRIMARY KEY); INSERT INTO t VALUES (1)", **FILE)

    outcome = duck.run(sql, {"max_bytes": 1000}, **FILE)

    assert outcome.status == "error"
    assert duck.rows("SELECT a FROM t", **FILE) == [[1]]


def test_an_open_transaction_is_reported(duck: Duck) -> None:
    outcome = duck.run("BEGIN; CREATE TABLE t (a INTEGER)", **FILE)

    assert outcome.error is not None
    assert outcome.error.kind == "duckdb.transaction"
    assert "rolled back" in outcome.error.message


def test_the_authors_own_transactions_are_respected(duck: Duck) -> None:
    duck.run(
        "CREATE TABLE t (a INTEGER); BEGIN; INSERT INTO t VALUES (1); COMMIT;"
        "BEGIN; INSERT INTO t VALUES (2); ROLLBACK",
        **FILE,
    )

    assert duck.rows("FROM t", **FILE) == [[1]]


@pytest.mark.parametrize(
    "attach",
    [{"other": "other.duckdb"}, ["other.duckdb"], {"other": {"path": "other.duckdb"}}],
)
def test_other_databases_are_attached(duck: Duck, attach: Any) -> None:
    duck.run("CREATE TABLE t AS SELECT 7 AS a", database="other.duckdb")

    assert duck.rows("SELECT a FROM other.t", attach=attach) == [[7]]
    changed = duck.run("INSERT INTO other.t VALUES (8)", attach=attach)
    assert changed.result["rowcount"] == 1


def test_an_attached_database_can_be_read_only(duck: Duck) -> None:
    duck.run("CREATE TABLE t AS SELECT 7 AS a", database="other.duckdb")
    attach = {"other": {"path": "other.duckdb", "read_only": True}}

    outcome = duck.run("INSERT INTO other.t VALUES (8)", attach=attach)

    assert outcome.error is not None
    assert "read-only" in outcome.error.message


def test_an_invalid_database_file_is_named(duck: Duck) -> None:
    (duck.folder / "x.duckdb").write_text("not a database" * 100)

    outcome = duck.run("SELECT 1", attach={"x": "x.duckdb"})

    assert outcome.error is not None
    assert outcome.error.kind == "duckdb.io"
    assert outcome.error.message.startswith("attach.x: ")


def test_calls_at_the_same_time_wait_for_their_turn_at_a_file(duck: Duck) -> None:
    add = (
        "CREATE TABLE IF NOT EXISTS t (n INTEGER); "
        "INSERT INTO t SELECT coalesce(max(n), 0) + 1 FROM t; SELECT max(n) AS n FROM t"
    )

    async def work() -> list[Outcome]:
        calls = [duck.go(add, **FILE) for _ in range(8)]
        return list(await asyncio.gather(*calls))

    found = [outcome.result["rows"][0]["n"] for outcome in duck.together(work)]

    assert sorted(found) == list(range(1, 9))


def test_a_file_that_another_process_writes_is_worth_another_try(
    duck: Duck, other_process: Any
) -> None:
    with other_process(duck.folder / "data.duckdb"):
        outcome = duck.run("CREATE TABLE t (a INTEGER)", **FILE)
    again = duck.run("CREATE TABLE t (a INTEGER)", **FILE)

    assert outcome.error is not None
    assert (outcome.error.kind, outcome.error.retryable) == ("duckdb.locked", True)
    assert again.status == "ok"


@pytest.mark.parametrize(
    ("sql", "kind", "details"),
    [
        ("SELECT 1;\n  SELEC 2", "duckdb.syntax", {"line": 2, "position": 3}),
        ("SELECT 'é', nope", "duckdb.undefined", {"line": 1, "position": 13}),
        (
            "SELECT 1;\nSELECT 2;\nSELECT\n  nope",
            "duckdb.undefined",
            {"statement": 3, "line": 4, "position": 3},
        ),
        (
            "CREATE TABLE t (a INTEGER);\nINSERT INTO t VALUES ('x')",
            "duckdb.data",
            {"statement": 2, "line": 2, "position": 23},
        ),
    ],
)
def test_an_error_says_where_it_is(
    duck: Duck, sql: str, kind: str, details: dict[str, int]
) -> None:
    outcome = duck.run(sql)

    assert outcome.error is not None
    assert (outcome.error.kind, outcome.error.details) == (kind, details)


@pytest.mark.spec("S-65")
@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("FROM nope", "duckdb.undefined"),
        ("SELECT nope(1)", "duckdb.undefined"),
        ("CREATE TABLE t (a INT); CREATE TABLE t (a INT)", "duckdb.duplicate"),
        ("SELECT sum('x')", "duckdb.binder"),
        (
            "CREATE TABLE t (a INT NOT NULL); INSERT INTO t VALUES (NULL)",
            "duckdb.constraint",
        ),
        ("SELECT 9223372036854775807 + 1", "duckdb.data"),
        ("SELECT error('stop')", "duckdb.data"),
        ("FROM 'nope.csv'", "duckdb.io"),
        ("COMMIT", "duckdb.transaction"),
    ],
)
def test_errors_have_kinds(duck: Duck, sql: str, kind: str) -> None:
    outcome = duck.run(sql)

    assert outcome.error is not None
    assert outcome.error.kind == kind
    assert not outcome.error.retryable


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT 'hunter2'::INTEGER",
        "SELECT x::DATE FROM (VALUES ('hunter2')) t(x)",
        "SELECT strptime('hunter2', '%Y')",
        "SELECT json_extract('hunter2', '$.a')",
        "CREATE TABLE t (a VARCHAR PRIMARY KEY); INSERT INTO t VALUES ('hunter2'); "
        "INSERT INTO t VALUES ('hunter2')",
        "SELECT 'hunter2' 'hunter2'",
        "SELECT 'hunter2",
        "FROM read_csv('secret.csv', columns = {'a': 'INTEGER', 'b': 'INTEGER'})",
        "FROM read_json('secret.csv')",
    ],
)
def test_no_error_shows_the_data(duck: Duck, sql: str) -> None:
    (duck.folder / "secret.csv").write_text("hunter2,hunter2,3\nhunter2\n")

    outcome = duck.run(sql)

    assert outcome.error is not None
    assert "hunter2" not in repr(outcome)


def test_reading_has_no_effect_and_all_else_does(duck: Duck) -> None:
    def has_effect(sql: str, **inputs: Any) -> bool:
        return duck.tool.has_effect(duck.call(sql, {}, inputs))

    assert not has_effect("SELECT 1", **FILE)
    assert has_effect("INSERT INTO t VALUES (1)")
    assert has_effect("SELECT 1", export="x.csv")


def test_modules_of_the_playbook_do_not_take_the_place_of_others(duck: Duck) -> None:
    folder = duck.folder / "another"  # another process, which imports anew
    folder.mkdir()
    for name in ("duckdb", "_duckdb", "decimal", "msgspec", "noetl_duck", "base64"):
        (folder / f"{name}.py").write_text("raise SystemExit('taken in')")
    duck.folder = folder

    assert duck.rows("SELECT 1.5") == [[1.5]]


@pytest.mark.parametrize(
    ("spec", "inputs", "said"),
    [
        ({"memory": "lots"}, {}, "spec.memory: 'lots' is not a size"),
        ({"threads": 0}, {}, "spec.threads: 0 is not a whole number of at least 1"),
        ({"max_rows": "x"}, {}, "spec.max_rows: 'x' is not a whole number"),
        ({"timeout": "soon"}, {}, "spec.timeout: 'soon' is not a duration"),
        ({}, {"database": 5}, "database must be the path of a file"),
        ({}, {"attach": 5}, "attach must be a mapping or a list of files"),
        ({}, {"attach": {"a": 5}}, "attach.a must be a path, or {path, read_only"),
        ({}, {"extensions": ["../x"]}, "extensions must be a list of names"),
        ({}, {"export": 5}, "export must be a path, {path, format} or {format}"),
        ({}, {"export": "a.xls"}, "export.format must be one of csv, json, ndjson"),
        ({}, {"tables": []}, "tables must be a mapping of names to rows"),
        ({}, {"database": "a\0b"}, "database is not the path of a file"),
    ],
)
def test_unused_inputs_are_reported(
    duck: Duck, spec: dict[str, Any], inputs: dict[str, Any], said: str
) -> None:
    outcome = duck.run("SELECT 1", spec, **inputs)

    assert outcome.error is not None
    assert outcome.error.kind == "tool.contract"
    assert said in outcome.error.message


def test_bundled_extensions_are_there_and_others_are_not_fetched(duck: Duck) -> None:
    assert duck.rows("SELECT 1", extensions=["json", "parquet", "icu"]) == [[1]]

    outcome = duck.run("SELECT 1", extensions=["spatial"])

    assert outcome.error is not None
    assert outcome.error.kind == "duckdb.extension"
    assert "'spatial' is not installed" in outcome.error.message


def test_nothing_is_left_in_the_home(duck: Duck) -> None:
    duck.run("FROM t", tables={"t": [{"a": 1}]})
    duck.run("FROM nope", tables={"t": [{"a": 1}]})

    (bench,) = (duck.home / "tmp").iterdir()
    assert [file.name for file in bench.iterdir()] == ["lock"]


def test_without_the_package_one_line_says_what_to_install(tmp_path: Path) -> None:
    code = (
        "import asyncio, sys\n"
        "sys.modules['duckdb'] = None\n"
        "from noetl.adapters.tools.duckdb.tool import DuckdbTool\n"
        "from noetl.errors import ToolError\n"
        "from noetl.ports import ToolCall\n"
        "call = ToolCall(kind='duckdb', inputs={'command': 'SELECT 1'}, spec={},\n"
        "  execution_id='e', step='s', task='t', action_id='a', attempt=1)\n"
        "tool = DuckdbTool()\n"
        "try:\n"
        "    asyncio.run(tool.run(call))\n"
        "except ToolError as error:\n"
        "    print(error.kind, error.message)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path
    )

    assert done.stdout.startswith("duckdb.driver kind duckdb needs the package duckdb")
    assert install_command("duckdb") in done.stdout
    assert done.stdout.count("\n") == 1, done.stderr


def test_what_the_process_prints_is_in_the_log_of_the_task(
    duck: Duck, heard: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = "import os\nos.write(2, b'from the library\\n')\n"
    monkeypatch.setattr(client, "_PROGRAM", said + client._PROGRAM)
    call = msgspec.structs.replace(duck.call("SELECT 1 AS a", {}, {}), output=heard)

    outcome = duck.together(lambda: duck.tool.run(call))

    assert outcome.result["rows"] == [{"a": 1}]
    assert heard.streams["stderr"] == b"from the library\n"
