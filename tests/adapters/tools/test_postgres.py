"""Kind ``postgres``: statements, parameters and values, on a real server."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

from noetl.adapters.tools.postgres.tool import PostgresTool
from noetl.engine.tasks.outcome import Meta, Outcome, envelope
from noetl.extras import install_command
from noetl.ports import ToolCall

Call = Callable[..., ToolCall]
Sql = Callable[..., Outcome]
Look = Callable[[str], list[tuple[Any, ...]]]
Using = Callable[..., Any]


def first(outcome: Outcome) -> Any:
    """The only value of the only row."""
    assert outcome.status == "ok", outcome.error
    (row,) = outcome.result["rows"]
    (value,) = row.values()
    return value


@pytest.mark.spec("PIPE-13")
@pytest.mark.parametrize(
    ("command", "result"),
    [
        pytest.param(
            "SELECT 1 AS a, 'x' AS b UNION ALL SELECT 2, NULL",
            {
                "rows": [{"a": 1, "b": "x"}, {"a": 2, "b": None}],
                "columns": ["a", "b"],
                "rowcount": 2,
                "status": "SELECT 2",
            },
            id="rows are mappings",
        ),
        pytest.param(
            "SELECT 1 WHERE false",
            {
                "rows": [],
                "columns": ["?column?"],
                "rowcount": 0,
                "status": "SELECT 0",
            },
            id="no row still has columns",
        ),
        pytest.param(
            "CREATE TABLE t (a int)",
            {"rows": [], "columns": [], "rowcount": 0, "status": "CREATE TABLE"},
            id="a statement without rows",
        ),
        pytest.param(
            "SELECT 1 AS id, 2 AS id, 3 AS id_2",
            {
                "rows": [{"id": 1, "id_3": 2, "id_2": 3}],
                "columns": ["id", "id_3", "id_2"],
                "rowcount": 1,
                "status": "SELECT 1",
            },
            id="a repeated name is made unique",
        ),
    ],
)
def test_the_result_of_one_statement(
    command: str, result: dict[str, Any], sql: Sql
) -> None:
    assert sql(command).result == result


def test_command_has_other_names(sql: Sql) -> None:
    assert first(sql(None, query="SELECT 1")) == 1
    assert first(sql(None, sql="SELECT 2")) == 2


@pytest.mark.spec("PIPE-13")
def test_several_statements_give_the_last_result_and_all(sql: Sql) -> None:
    outcome = sql(
        "CREATE TABLE t (a int);"
        "INSERT INTO t SELECT generate_series(1, 3);"
        "UPDATE t SET a = a + 1 WHERE a > 1 RETURNING a AS b;"
    )

    statements = outcome.result.pop("statements")
    assert outcome.result == statements[-1]
    assert outcome.result["rows"] == [{"b": 3}, {"b": 4}]
    assert [each["status"] for each in statements] == [
        "CREATE TABLE",
        "INSERT 0 3",
        "UPDATE 2",
    ]
    assert [each["rowcount"] for each in statements] == [0, 3, 2]


@pytest.mark.parametrize(
    ("command", "status"),
    [
        ("VALUES (1), (2)", "SELECT 2"),
        ("WITH a AS (SELECT 1) SELECT * FROM a", "SELECT 1"),
        ("SHOW server_version_num", "SHOW"),
        ("EXPLAIN SELECT 1", "EXPLAIN"),
        ("CREATE TABLE x AS SELECT 1", "SELECT 1"),
    ],
)
def test_the_status_is_the_server_s(command: str, status: str, sql: Sql) -> None:
    assert sql(command).result["status"] == status


@pytest.mark.spec("PIPE-13")
@pytest.mark.parametrize(
    ("command", "params", "value"),
    [
        pytest.param("SELECT $1::int + $2", [1, 2], 3, id="by number"),
        pytest.param("SELECT :a::int + :b + :a", {"a": 1, "b": 2}, 4, id="by name"),
        pytest.param("SELECT $1::text", [5], "5", id="a number for a text"),
        pytest.param("SELECT $1::int", ["5"], 5, id="a text for a number"),
        pytest.param("SELECT $1::int", [5.0], 5, id="a whole float for an integer"),
        pytest.param("SELECT $1::bool", ["yes"], True, id="a word for a boolean"),
        pytest.param("SELECT $1::date", ["29 Feb 2024"], "2024-02-29", id="a date"),
        pytest.param("SELECT $1::jsonb", [{"a": [1]}], {"a": [1]}, id="a mapping"),
        pytest.param("SELECT $1::jsonb", ['{"a": 1}'], {"a": 1}, id="a document"),
        pytest.param("SELECT $1::json", [[1, "x"]], [1, "x"], id="a list as JSON"),
        pytest.param("SELECT $1::int[]", [[1, None, 3]], [1, None, 3], id="an array"),
        pytest.param(
            "SELECT $1::text[]",
            [["a,b", 'c"d', "NULL", "", "\\", "{}"]],
            ["a,b", 'c"d', "NULL", "", "\\", "{}"],
            id="an array of nasty texts",
        ),
        pytest.param(
            "SELECT $1::int[]", [[[1, 2], [3, 4]]], [[1, 2], [3, 4]], id="dimensions"
        ),
        pytest.param(
            "SELECT $1::jsonb[]", [[{"a": 1}, [2]]], [{"a": 1}, [2]], id="JSON array"
        ),
        pytest.param("SELECT $1::int", [None], None, id="null"),
        pytest.param("SELECT 3 = ANY($1)", [[1, 2, 3]], True, id="a list of keys"),
        pytest.param("SELECT $1::interval", ["90 min"], "PT1H30M", id="an interval"),
        pytest.param("SELECT $1::bytea", ["\\x00ff"], "\\x00ff", id="bytes"),
        pytest.param(
            "SELECT upper($1::regclass::text)", ["pg_class"], "PG_CLASS", id="a table"
        ),
        pytest.param(
            "SELECT $1::numeric",
            ["12345678901234567890.123"],
            "12345678901234567890.123",
            id="all digits of a decimal",
        ),
        pytest.param("SELECT 'a:b' || $1", ["c"], "a:bc", id="a colon in a text"),
        pytest.param(
            "SELECT (ARRAY[1,2,3])[2:3] || :a::int", {"a": 4}, [2, 3, 4], id="a slice"
        ),
    ],
)
def test_parameters(command: str, params: Any, value: Any, sql: Sql) -> None:
    assert first(sql(command, params=params)) == value


@pytest.mark.parametrize(
    "hostile",
    [
        "'; DROP TABLE t; --",
        "1; DROP TABLE t",
        "$$; DROP TABLE t; $$",
        "\\'; DROP TABLE t; --",
        '"; DROP TABLE t; --',
        "*/ DROP TABLE t /*",
        "$1 :a ::int",
        "{{ 7 * 7 }}",
    ],
)
@pytest.mark.spec("PIPE-13")
def test_a_hostile_value_stays_a_value(hostile: str, sql: Sql, look: Look) -> None:
    sql("CREATE TABLE t (a text, b text[])")

    outcome = sql(
        "INSERT INTO t VALUES (:a, :b) RETURNING a, b",
        params={"a": hostile, "b": [hostile]},
    )

    assert outcome.result["rows"] == [{"a": hostile, "b": [hostile]}]
    assert look("SELECT a, b FROM t") == [(hostile, [hostile])]


TYPES = [
    ("1::int2", 1),
    ("9223372036854775807::int8", 9223372036854775807),
    ("1.1::float4", 1.1),
    ("0.1::float8", 0.1),
    ("'NaN'::float8", "NaN"),
    ("'-Infinity'::float4", "-Infinity"),
    ("1.5::numeric", 1.5),
    ("'NaN'::numeric", "NaN"),
    ("true", True),
    ("'é'::text", "é"),
    ("'x'::\"char\"", "x"),
    ("'ä€ '::char(3)", "ä€ "),
    ("'{\"a\": [1, null]}'::jsonb", {"a": [1, None]}),
    ("'[1.0, 1e999]'::json", [1.0, "1e999"]),
    ("'null'::jsonb", None),
    ("'2024-02-29'::date", "2024-02-29"),
    ("'infinity'::date", "infinity"),
    ("'0044-03-15 BC'::date", "0044-03-15 BC"),
    ("'294276-12-31 23:59:59.5'::timestamp", "294276-12-31T23:59:59.5"),
    ("'2024-02-29 12:00:00+02'::timestamptz", "2024-02-29T10:00:00+00:00"),
    ("'-infinity'::timestamptz", "-infinity"),
    ("'24:00'::time", "24:00:00"),
    ("'12:30:00.25-03:30'::timetz", "12:30:00.25-03:30"),
    ("'1 year 2 mons -3 days 04:05:06.7'::interval", "P1Y2M-3DT4H5M6.7S"),
    ("'\\x00ff'::bytea", "\\x00ff"),
    (
        "'615e2089-58cb-406c-915d-48d05e76b46c'::uuid",
        "615e2089-58cb-406c-915d-48d05e76b46c",
    ),
    ("'10.0.0.1/8'::inet", "10.0.0.1/8"),
    ("'10.0.0.0/8'::cidr", "10.0.0.0/8"),
    ("'08:00:2b:01:02:03'::macaddr", "08:00:2b:01:02:03"),
    ("B'10110011101'::varbit", "10110011101"),
    ("'[1,5)'::int4range", "[1,5)"),
    ("'empty'::int4range", "empty"),
    ("'[2024-01-01,infinity)'::daterange", "[2024-01-01,infinity)"),
    (
        "'(,2024-01-01 10:00+00]'::tstzrange",
        "(,2024-01-01T10:00:00+00:00]",
    ),
    ("'0/16B3748'::pg_lsn", "0/16B3748"),
    ("'a b'::tsvector", "'a' 'b'"),
    ("'happy'::mood", "happy"),
    ("'{happy,sad}'::mood[]", ["happy", "sad"]),
    ("'{2024-01-01,NULL}'::date[]", ["2024-01-01", None]),
    ("'{1.5,NaN}'::numeric[]", [1.5, "NaN"]),
    ("7::positive", 7),
]


@pytest.mark.spec("PIPE-13")
@pytest.mark.parametrize(("expression", "value"), TYPES)
def test_a_value_becomes_json_and_may_be_sent_back(
    expression: str, value: Any, sql: Sql
) -> None:
    types = (
        "CREATE TYPE mood AS ENUM ('happy', 'sad');"
        "CREATE DOMAIN positive AS int CHECK (value > 0);"
    )
    outcome = sql(f"{types} SELECT {expression} AS v")
    assert outcome.status == "ok", outcome.error
    found = outcome.result["rows"][0]["v"]
    assert (found, type(found)) == (value, type(value))
    if value is None or "json" in expression:
        return

    again = sql(
        f"CREATE TABLE t AS SELECT {expression} AS v; DELETE FROM t;"
        "INSERT INTO t VALUES (:v);"
        f"SELECT v::text IS NOT DISTINCT FROM ({expression})::text AS same FROM t",
        params={"v": found},
    )

    assert again.result["rows"] == [{"same": True}], again.error


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("'(1,2)'::point", [1.0, 2.0]),
        ("'((0,0),(1,1))'::polygon", [[0.0, 0.0], [1.0, 1.0]]),
        ("ROW(1, 'x')", [1, "x"]),
        ("'{[1,3),[5,7)}'::int4multirange", ["[1,3)", "[5,7)"]),
        (
            "ROW(1, '2024-01-01', '{\"k\": 1.5}')::pair",
            {"a": 1, "b": "2024-01-01T00:00:00+00:00", "c": {"k": 1.5}},
        ),
        (
            "ARRAY[ROW(1, 'infinity', NULL)::pair]",
            [{"a": 1, "b": "infinity", "c": None}],
        ),
        ("'[a,\"b,c\"]'::words", '[a,"b,c"]'),
        ("pg_sleep(0)", None),
    ],
)
def test_structured_values(expression: str, value: Any, sql: Sql) -> None:
    types = (
        "SET LOCAL timezone = 'UTC';"
        "CREATE TYPE pair AS (a int, b timestamptz, c jsonb);"
        "CREATE TYPE words AS RANGE (subtype = text);"
    )
    assert sql(f"{types} SELECT {expression} AS v").result["rows"] == [{"v": value}]


@pytest.mark.spec("PIPE-13")
def test_all_statements_or_none(sql: Sql, look: Look) -> None:
    sql("CREATE TABLE t (a int PRIMARY KEY)")
    script = "INSERT INTO t VALUES (1); INSERT INTO t VALUES (1)"

    outcome = sql(script)
    assert (outcome.error.kind, outcome.error.details["statement"]) == (
        "pg.unique_violation",
        2,
    )
    assert look("SELECT a FROM t") == []

    outcome = sql(script, {"transaction": False})
    assert outcome.error.kind == "pg.unique_violation"
    assert look("SELECT a FROM t") == [(1,)]


@pytest.mark.parametrize(
    ("command", "spec", "kind", "rows"),
    [
        pytest.param(
            "BEGIN ISOLATION LEVEL SERIALIZABLE; INSERT INTO t"
            " SELECT current_setting('transaction_isolation'); COMMIT;",
            {},
            None,
            [("serializable",)],
            id="its own frame is the task's",
        ),
        pytest.param(
            "INSERT INTO t VALUES ('a'); COMMIT; INSERT INTO t VALUES ('b')",
            {},
            "pg.transaction",
            [],
            id="an end within",
        ),
        pytest.param(
            "BEGIN; INSERT INTO t VALUES ('a')",
            {},
            "pg.transaction",
            [],
            id="a beginning without end",
        ),
        pytest.param(
            "INSERT INTO t VALUES ('a'); SAVEPOINT s; INSERT INTO t VALUES ('b');"
            "ROLLBACK TO SAVEPOINT s",
            {},
            None,
            [("a",)],
            id="savepoints are free",
        ),
        pytest.param(
            "BEGIN; INSERT INTO t VALUES ('a'); ROLLBACK; INSERT INTO t VALUES ('b')",
            {"transaction": False},
            None,
            [("b",)],
            id="of its own where asked for",
        ),
        pytest.param(
            "BEGIN; INSERT INTO t VALUES ('a')",
            {"transaction": False},
            "pg.transaction",
            [],
            id="left open",
        ),
        pytest.param(
            "INSERT INTO t VALUES ('a') RETURNING *; VACUUM t",
            {"transaction": False},
            None,
            [("a",)],
            id="what cannot be in one",
        ),
    ],
)
def test_transactions(
    command: str,
    spec: dict[str, Any],
    kind: str | None,
    rows: list[Any],
    sql: Sql,
    look: Look,
) -> None:
    sql("CREATE TABLE t (a text)")

    outcome = sql(command, spec)

    assert (outcome.error and outcome.error.kind) == kind
    assert look("SELECT a FROM t") == rows


def test_a_procedure_may_commit_by_itself(sql: Sql, look: Look) -> None:
    sql(
        "CREATE TABLE t (a int);"
        "CREATE PROCEDURE p(INOUT n int) LANGUAGE plpgsql AS $$"
        " BEGIN INSERT INTO t VALUES (n); COMMIT; n := n + 1; END $$"
    )

    outcome = sql("CALL p(1)", {"transaction": False})

    assert outcome.result["rows"] == [{"n": 2}]
    assert look("SELECT a FROM t") == [(1,)]


def test_notices_are_reported(sql: Sql) -> None:
    outcome = sql("DO $$ BEGIN RAISE WARNING 'look %', 7; END $$")

    said = outcome.helper["notices"]
    assert {"severity": "WARNING", "message": "look 7"} in said
    assert any("superuser" in each["message"] for each in said)


def test_notices_are_lines_of_the_log_of_the_task_with_their_levels(
    sql: Sql, heard: Any
) -> None:
    sql(
        "DO $$ BEGIN FOR n IN 1..30 LOOP RAISE NOTICE 'row %', n; END LOOP; "
        "RAISE WARNING 'look out'; END $$; SELECT 1",
        output=heard,
    )

    lines = heard.streams["log"].decode().splitlines()
    assert [line for line in lines if "row" in line] == [
        f"info: row {n}" for n in range(1, 31)
    ]
    assert lines[-1] == "warning: look out"


def test_a_plain_role_is_not_warned_of_and_starts_no_program(
    sql: Sql, postgres: str
) -> None:
    sql("DROP ROLE IF EXISTS plain; CREATE ROLE plain LOGIN PASSWORD 'p'")
    port = postgres.rpartition(":")[2].partition("/")[0]

    outcome = sql(
        "SELECT current_user",
        dsn=None,
        auth={
            "host": "127.0.0.1",
            "port": int(port),
            "dbname": postgres.rpartition("/")[2],
            "username": "plain",
            "password": "p",
            "sslmode": "prefer",
        },
    )

    assert first(outcome) == "plain"
    assert outcome.helper == {}

    guest = f"postgresql://plain:p@127.0.0.1:{port}/postgres"
    command = "CREATE TEMP TABLE x (a text); COPY x FROM PROGRAM 'id'"
    assert sql(command, dsn=guest).error.kind == "pg.permission"


@pytest.mark.spec("PIPE-13")
def test_connections_are_shared_and_come_clean(
    postgres: str, call: Call, using: Using
) -> None:
    def ask(command: str) -> ToolCall:
        return call("postgres", {"dsn": postgres, "command": command})

    async def work(run: Any) -> tuple[set[Any], list[Any]]:
        pids = set()
        for command in (
            "SELECT pg_backend_pid() AS v",
            "CREATE TEMP TABLE mine (a int); SET search_path = nowhere;"
            "SET ROLE pg_monitor; SELECT pg_backend_pid() AS v",
            "SELECT pg_backend_pid() AS v",
        ):
            pids.add((await run(ask(command))).result["rows"][0]["v"])
        left = await run(
            ask(
                "SELECT to_regclass('mine') AS t, current_user::text AS u,"
                " current_setting('search_path') AS p"
            )
        )
        return pids, left.result["rows"]

    pids, left = using(PostgresTool(), work)

    assert len(pids) == 1
    assert left == [{"t": None, "u": "postgres", "p": '"$user", public'}]


@pytest.mark.spec("PIPE-13")
def test_there_are_no_more_connections_than_allowed(
    postgres: str, call: Call, using: Using
) -> None:
    ask = call(
        "postgres",
        {
            "dsn": postgres,
            "command": "SELECT pg_backend_pid() AS v FROM pg_sleep(0.01)",
        },
        spec={"connections": 2, "timeout": 30},
    )

    async def work(run: Any) -> set[int]:
        outcomes = await asyncio.gather(*(run(ask) for _ in range(12)))
        return {outcome.result["rows"][0]["v"] for outcome in outcomes}

    assert len(using(PostgresTool(), work)) == 2


def test_no_timeout_is_none_of_the_server_s_either(sql: Sql) -> None:
    show = "SELECT current_setting('statement_timeout')"
    assert first(sql(show, {"timeout": None})) == "0"
    assert first(sql(show, {"timeout": "1h"})) != "0"


def test_the_server_knows_whose_work_it_is(sql: Sql) -> None:
    show = "SELECT current_setting('application_name')"
    assert first(sql(show)) == "noetl a1"


def test_nothing_is_taken_from_the_environment(
    sql: Sql, postgres: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", "s3cret/of:tests")
    head, _, tail = postgres.partition("@")
    assert head.endswith("s3cret%2Fof%3Atests")

    outcome = sql("SELECT 1", dsn=f"postgresql://postgres@{tail}")

    assert outcome.error.kind == "auth"


@pytest.mark.parametrize(
    ("spec", "inputs", "message"),
    [
        ({}, {"command": ""}, "command is empty: write an SQL statement"),
        ({}, {"command": 5}, "command must be text"),
        ({}, {"query": "SELECT 1"}, "give one of command"),
        ({}, {"command": None}, "give one of command"),
        ({"transaction": "no"}, {}, "spec.transaction must be true or false"),
        ({"connections": 0}, {}, "spec.connections"),
        ({"idempotency": "yes"}, {}, "must be key"),
        ({"idempotency": "key", "transaction": False}, {}, "transaction: true"),
        ({"max_bytes": "much"}, {}, "spec.max_bytes"),
        ({}, {"params": "x"}, "params must be a list"),
        ({}, {"command": "COPY t FROM STDIN"}, "copy_from"),
        ({}, {"command": "COPY (SELECT 1) TO STDOUT"}, "copy_to"),
        ({"timeout": "soon"}, {}, "spec.timeout"),
    ],
)
def test_wrong_inputs_are_explained(
    spec: dict[str, Any], inputs: dict[str, Any], message: str, sql: Sql
) -> None:
    outcome = sql(**{"command": "SELECT 1", **inputs}, spec=spec)

    assert outcome.error.kind == "tool.contract"
    assert message in outcome.error.message


def test_the_envelope_has_code_and_sqlstate(sql: Sql) -> None:
    meta = Meta(1, "", "", 0.0)

    fine = envelope(sql("SELECT 1"), "postgres", meta)["pg"]
    wrong = envelope(sql("SELECT 1/0"), "postgres", meta)["pg"]

    assert (fine["code"], fine["sqlstate"]) == (None, None)
    assert (wrong["code"], wrong["sqlstate"]) == ("22012", "22012")


def test_a_missing_driver_is_one_clear_line() -> None:
    code = (
        "import asyncio, sys\n"
        "sys.modules['asyncpg'] = None\n"
        "from noetl.adapters.tools.postgres.tool import PostgresTool\n"
        "from noetl.ports import ToolCall\n"
        "from noetl.errors import ToolError\n"
        "call = ToolCall(kind='postgres', inputs={}, spec={}, execution_id='e',\n"
        "                step='s', task='t', action_id='a', attempt=1)\n"
        "try:\n"
        "    asyncio.run(PostgresTool().run(call))\n"
        "except ToolError as error:\n"
        "    print(error.kind, error.message)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert done.stdout.startswith("pg.driver ")
    assert install_command("postgres") in done.stdout
    assert len(done.stdout.splitlines()) == 1
