"""Kind ``postgres`` with much data: COPY in and out, and results without end."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from noetl.engine.tasks.outcome import Outcome

Sql = Callable[..., Outcome]
Look = Callable[[str], list[tuple[Any, ...]]]

TABLE = "CREATE TABLE t (id int, name text, tags text[], doc jsonb, day date)"
MIB = 1024 * 1024


@pytest.fixture(autouse=True)
def table(sql: Sql) -> None:
    assert sql(TABLE).status == "ok"


@pytest.mark.spec("PIPE-13")
def test_rows_are_loaded_as_parameters_would_be(sql: Sql) -> None:
    nasty = 'tab\t line\n quote" back\\slash \\N é'
    rows = [
        {"id": 1, "name": nasty, "tags": [nasty, None], "doc": [{"a": nasty}]},
        {"id": "2", "name": None, "tags": None, "doc": {"b": None}},
    ]

    loaded = sql(None, copy_from={"table": "public.t", "rows": rows})

    assert loaded.result == {
        "rows": [],
        "columns": ["id", "name", "tags", "doc"],
        "rowcount": 2,
        "status": "COPY 2",
    }
    rows[1]["id"] = 2
    found = sql("SELECT id, name, tags, doc FROM t ORDER BY id").result
    assert found["rows"] == rows


def test_lists_fill_the_columns_in_their_order(sql: Sql, look: Look) -> None:
    sql(None, copy_from={"table": "t", "rows": [[1, "a", [], {}, "2024-01-01"]]})
    sql(None, copy_from={"table": "t", "columns": ["name", "id"], "rows": [["b", 2]]})

    assert look("SELECT id, name, day::text FROM t ORDER BY id") == [
        (1, "a", "2024-01-01"),
        (2, "b", None),
    ]


def test_an_empty_result_succeeds(sql: Sql) -> None:
    assert sql(None, copy_from={"table": "t", "rows": []}).result["rowcount"] == 0


@pytest.mark.spec("PIPE-13")
def test_csv_is_loaded_by_its_header(sql: Sql, look: Look) -> None:
    text = '\ufeffname,id\r\n"a, b",1\r\n,2\r\n'

    loaded = sql(None, copy_from={"table": "t", "csv": text})

    assert loaded.result["columns"] == ["name", "id"]
    assert look("SELECT id, name FROM t ORDER BY id") == [(1, "a, b"), (2, None)]


def test_csv_of_another_dialect(sql: Sql, look: Look) -> None:
    options = {
        "header": False,
        "delimiter": ";",
        "null": "-",
        "columns": ["id", "name"],
    }

    sql(None, copy_from={"table": "t", "csv": "1;-\n2;x\n", **options})

    assert look("SELECT id, name FROM t ORDER BY id") == [(1, None), (2, "x")]


@pytest.mark.spec("PIPE-13")
def test_a_file_below_the_playbook_s_folder_is_loaded(
    sql: Sql, look: Look, tmp_path: Path
) -> None:
    lines = ["id,name", *(f"{number},{'x' * 50}" for number in range(20_000))]
    (tmp_path / "data.csv").write_text("\n".join(lines))
    copy = {"table": "t", "path": "data.csv"}

    loaded = sql(None, copy_from=copy, folder=str(tmp_path))
    outside = sql(None, copy_from={**copy, "path": "/etc/passwd"}, folder=str(tmp_path))

    assert loaded.result["rowcount"] == 20_000
    assert look("SELECT count(*), max(id) FROM t") == [(20_000, 19_999)]
    assert outside.error.kind == "tool.contract"


@pytest.mark.parametrize(
    ("copy", "kind", "sqlstate"),
    [
        pytest.param({"rows": [{"nope": 1}]}, "pg.undefined", "42703", id="no column"),
        pytest.param(
            {"table": "nope", "rows": []}, "pg.undefined", "42P01", id="table"
        ),
        pytest.param(
            {"rows": [{"id": 1}, {"id": "x"}]}, "pg.data", "22P02", id="no number"
        ),
        pytest.param({"csv": "id\n1\nx\n"}, "pg.data", "22P02", id="no number in CSV"),
        pytest.param({"csv": "id\n1,2\n"}, "pg.data", "22P04", id="too many fields"),
        pytest.param({"rows": [{"name": "a\0b"}]}, "pg.data", "22021", id="NUL"),
        pytest.param({"rows": [{"name": "\ud800"}]}, "pg.data", None, id="half"),
        pytest.param({"rows": [{"id": 1}, 5]}, "tool.contract", None, id="no row"),
    ],
)
def test_all_rows_or_none(
    copy: dict[str, Any], kind: str, sqlstate: str | None, sql: Sql, look: Look
) -> None:
    outcome = sql(None, copy_from={"table": "t", **copy})

    assert outcome.error.kind == kind
    assert outcome.helper.get("sqlstate") == sqlstate
    assert look("SELECT count(*) FROM t") == [(0,)]


def test_a_file_that_is_not_utf_8(sql: Sql, tmp_path: Path) -> None:
    (tmp_path / "data.csv").write_bytes(b"name\n\xff\xfe\n")

    outcome = sql(
        None, copy_from={"table": "t", "path": "data.csv"}, folder=str(tmp_path)
    )

    assert (outcome.error.kind, outcome.helper["sqlstate"]) == ("pg.data", "22021")


@pytest.mark.spec("PIPE-13")
def test_unloading(sql: Sql) -> None:
    sql("INSERT INTO t (id, name) VALUES (1, 'a, \"b\"'), (2, NULL)")

    table = sql(None, copy_to={"table": "t", "columns": ["id", "name"]}).result
    query = sql(
        None,
        copy_to={
            "query": "SELECT name, id FROM t WHERE id > 1;",
            "header": False,
            "delimiter": ";",
            "null": "-",
        },
    ).result
    rows = sql(
        None,
        copy_to={"query": "SELECT id FROM t WHERE id = :id", "format": "rows"},
        params={"id": 2},
    ).result

    assert table["csv"] == 'id,name\n1,"a, ""b"""\n2,\n'
    assert (table["rowcount"], table["columns"]) == (2, ["id", "name"])
    assert (query["csv"], query["status"]) == ("-;2\n", "COPY 1")
    assert rows["rows"] == [{"id": 2}]


@pytest.mark.parametrize(
    ("inputs", "spec", "knob"),
    [
        pytest.param(
            {"command": "SELECT generate_series(1, 100000000)"},
            {"max_bytes": "100KiB"},
            "max_bytes",
            id="many small rows",
        ),
        pytest.param(
            {"command": "SELECT repeat('x', 1000000) FROM generate_series(1, 1000000)"},
            {"max_bytes": "10MiB"},
            "max_bytes",
            id="large rows",
        ),
        pytest.param(
            {"command": "SELECT generate_series(1, 11)"},
            {"max_rows": 10},
            "max_rows",
            id="one row too many",
        ),
        pytest.param(
            {"command": "SELECT generate_series(1, 6); SELECT generate_series(1, 6)"},
            {"max_rows": 10},
            "max_rows",
            id="over all statements",
        ),
        pytest.param(
            {"copy_to": {"query": "SELECT generate_series(1, 100000000)"}},
            {"max_bytes": "100KiB"},
            "max_bytes",
            id="an endless CSV",
        ),
        pytest.param(
            {"copy_to": {"query": "SELECT generate_series(1, 11)"}},
            {"max_rows": 10},
            "max_rows",
            id="a row of CSV too many",
        ),
    ],
)
def test_a_result_too_large_says_what_to_do(
    inputs: dict[str, Any], spec: dict[str, Any], knob: str, sql: Sql
) -> None:
    outcome = sql(**{"command": None, **inputs}, spec=spec)

    assert (outcome.error.kind, outcome.error.retryable) == ("pg.too_large", False)
    assert f"spec.{knob}" in outcome.error.message
    assert "LIMIT" in outcome.error.message


def test_a_result_too_large_undoes_what_made_it(sql: Sql, look: Look) -> None:
    outcome = sql(
        "INSERT INTO t (id) SELECT generate_series(1, 100) RETURNING id",
        {"max_rows": 10},
    )

    assert outcome.error.kind == "pg.too_large"
    assert look("SELECT count(*) FROM t") == [(0,)]


def test_exactly_as_many_as_allowed(sql: Sql) -> None:
    outcome = sql("SELECT generate_series(1, 5000)", {"max_rows": 5000})

    assert outcome.result["rowcount"] == 5000
    assert outcome.result["rows"][-1] == {"generate_series": 5000}


MEMORY = r"""
import asyncio, re, sys
from noetl.adapters.tools.postgres.tool import PostgresTool
from noetl.errors import ToolError
from noetl.ports import ToolCall

async def main(dsn, command):
    call = ToolCall(kind="postgres", inputs={"dsn": dsn, "command": command},
                    spec={"timeout": 120, "max_bytes": "8MiB"}, execution_id="e",
                    step="s", task="t", action_id="a", attempt=1)
    try:
        await PostgresTool().run(call)
    except ToolError as error:
        # Not ru_maxrss: that counts what the parent had when it started us.
        status = open("/proc/self/status").read()
        print(error.kind, re.search(r"VmHWM:\s+(\d+) kB", status)[1])

asyncio.run(main(*sys.argv[1:]))
"""


@pytest.mark.parametrize(
    "query",
    [
        "SELECT n, md5(n::text) FROM generate_series(1, 10000000) AS n",
        "SELECT repeat('x', 20000000) FROM generate_series(1, 1000)",
    ],
)
def test_memory_stays_small_whatever_the_query_returns(
    query: str, postgres: str
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", MEMORY, postgres, query],
        capture_output=True,
        text=True,
        check=True,
    )

    kind, kibibytes = done.stdout.split()
    assert kind == "pg.too_large"
    assert int(kibibytes) * 1024 < 300 * MIB
