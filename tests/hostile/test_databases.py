"""Rows 84 and 85: SQL that means harm, on a real PostgreSQL and a real DuckDB."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import asyncpg
import pytest

Attempt = Callable[..., Any]
Validate = Callable[..., Any]

pytestmark = pytest.mark.spec("PIPE-13", "PIPE-14", "S-65")

MEGABYTES = 64
DROP = "x'; DROP TABLE kept; --"
MANY = 1_000_000
COUNT = "{{ {'count': outcome.result.rowcount, 'rows': outcome.result.rows | ref} }}"


def ask(dsn: str, *statements: str) -> list[Any]:
    async def work() -> list[Any]:
        connection = await asyncpg.connect(dsn)
        try:
            for statement in statements[:-1]:
                await connection.execute(statement)
            return [tuple(row) for row in await connection.fetch(statements[-1])]
        finally:
            await connection.close()

    return asyncio.run(work())


@pytest.fixture
def plain_role(postgres: str) -> str:
    """The address of the same database for a role without rights of its own."""
    ask(
        postgres,
        "DROP ROLE IF EXISTS hostile",
        "CREATE ROLE hostile LOGIN PASSWORD 'hostile-role'",
        "SELECT 1",
    )
    host = postgres.partition("@")[2]
    return f"postgresql://hostile:hostile-role@{host}"


def test_84_bound_parameters_are_values_whatever_they_say(
    attempt: Attempt, postgres: str
) -> None:
    ask(postgres, "CREATE TABLE kept (note text)", "SELECT 1")
    command = "INSERT INTO kept (note) VALUES ($1) RETURNING note"
    task = {"kind": "postgres", "dsn": postgres, "command": command, "params": [DROP]}

    ran = attempt({"insert": task})

    assert ran.kind("insert") is None
    assert ask(postgres, "SELECT note FROM kept") == [(DROP,)]


def test_84_a_template_inside_sql_is_a_warning(validate: Validate) -> None:
    playbook = {
        "apiVersion": "noetl.io/v2",
        "kind": "Playbook",
        "metadata": {"name": "t", "path": "tests/t"},
        "workload": {"name": ""},
        "workflow": [
            {
                "step": "start",
                "tool": {
                    "kind": "postgres",
                    "dsn": "postgresql://h/d",
                    "command": "SELECT * FROM t WHERE name = '{{ workload.name }}'",
                },
            }
        ],
    }
    answer = validate(json.dumps(playbook).encode(), "--json")

    found = [(each["rule"], each["severity"]) for each in answer.findings]
    assert ("query-interpolation", "warning") in found


def test_84_a_superuser_role_warns_the_author(
    attempt: Attempt, postgres: str, plain_role: str
) -> None:
    ran = attempt(
        {
            "master": {"kind": "postgres", "dsn": postgres, "command": "SELECT 1"},
            "servant": {"kind": "postgres", "dsn": plain_role, "command": "SELECT 1"},
        }
    )

    assert "is a superuser" in json.dumps(ran.outcomes["master"]["pg"])
    assert "is a superuser" not in json.dumps(ran.outcomes["servant"]["pg"])


def test_84_statements_that_the_server_refuses(
    attempt: Attempt, plain_role: str
) -> None:
    statements = {
        "program": ("COPY (SELECT 1) TO PROGRAM 'id'", []),
        "file": ("COPY (SELECT 1) TO '/tmp/noetl-hostile'", []),
        "read": ("SELECT pg_read_file('/etc/passwd')", []),
        "nul": ("SELECT $1::text", ["a\0b"]),
    }
    ran = attempt(
        {
            name: {
                "kind": "postgres",
                "dsn": plain_role,
                "command": sql,
                "params": given,
            }
            for name, (sql, given) in statements.items()
        }
    )

    for name in ("program", "file", "read"):
        assert ran.kind(name).startswith("pg."), name
        assert ran.outcomes[name]["pg"]["sqlstate"] == "42501", name
    assert ran.kind("nul").startswith("pg.")
    assert ran.outcomes["nul"]["pg"]["sqlstate"] == "22021"


def test_84_a_query_without_an_end_is_stopped_on_the_server(
    attempt: Attempt, postgres: str
) -> None:
    command = "SELECT count(*) FROM generate_series(1, 1000000000000) AS endless"
    task = {"kind": "postgres", "dsn": postgres, "command": command}

    ran = attempt({"endless": {**task, "spec": {"timeout": 0.5}}})

    assert ran.kind("endless") == "timeout"
    running = "SELECT 1 FROM pg_stat_activity WHERE query LIKE $1 AND state = 'active'"
    running = running.replace("$1", "'%AS endless'")
    assert ask(postgres, running) == []


def test_84_many_rows_go_to_the_store_and_not_through_memory(
    attempt: Attempt, postgres: str
) -> None:
    query = "SELECT n, md5(n::text) AS m FROM generate_series(1, {}) AS n"
    task = {"kind": "postgres", "dsn": postgres}
    plain = attempt({"few": {**task, "command": query.format(3)}})

    ran = attempt(
        {"many": {**task, "command": query.format(MANY)}},
        keep=COUNT,
    )

    kept = ran.outcomes["many"]
    assert kept["count"] == MANY
    assert kept["rows"]["size"] > 40 * MANY
    assert ran.megabytes - plain.megabytes <= MEGABYTES


DUCK = {
    "passwd": ("SELECT * FROM read_csv('/etc/passwd')", "duckdb.external_access"),
    "passwd_as_text": ("FROM read_text('/etc/passwd')", "duckdb.external_access"),
    "upwards": ("FROM read_text('../../../../etc/passwd')", "duckdb.external_access"),
    "web": ("FROM read_csv('https://example.com/x.csv')", "duckdb.external_access"),
    "copy": ("COPY (SELECT 1) TO '/tmp/noetl-hostile.csv'", "duckdb.external_access"),
    "attach": ("ATTACH '/tmp/noetl-hostile.duckdb' AS x", "duckdb.external_access"),
    "install": ("INSTALL httpfs", "duckdb.forbidden"),
    "load": ("LOAD httpfs", "duckdb.forbidden"),
    "memory": ("SET memory_limit = '100GB'", "duckdb.forbidden"),
    "threads": ("SET threads = 64", "duckdb.forbidden"),
    "unlock": ("SET lock_configuration = false", "duckdb.forbidden"),
    "folders": ("SET allowed_directories = ['/']", "duckdb.forbidden"),
    "join": (
        "CREATE TABLE t AS SELECT * FROM range(100000000) a, range(100000000) b "
        "ORDER BY hash(a.range + b.range)",
        "duckdb.out_of_memory",
    ),
}


@pytest.fixture(scope="module")
def ducks(attempt: Attempt) -> Any:
    spec = {"memory": "32MiB", "threads": 1, "timeout": 60}
    return attempt(
        {
            name: {"kind": "duckdb", "command": command, "spec": spec}
            for name, (command, _) in DUCK.items()
        }
    )


@pytest.mark.parametrize("name", DUCK, ids=lambda name: f"85 {name}")
def test_what_duckdb_may_not_do(ducks: Any, name: str) -> None:
    assert ducks.kind(name) == DUCK[name][1]
    assert not Path("/tmp/noetl-hostile.csv").exists()
    assert not Path("/tmp/noetl-hostile.duckdb").exists()


def test_85_the_folders_of_the_embedded_host_are_inside(attempt: Attempt) -> None:
    """The playbook's folder is the current one here; the home is below it."""
    ran = attempt(
        {
            "write": {"kind": "duckdb", "command": "COPY (SELECT 1 a) TO 'a.csv'"},
            "read": {"kind": "duckdb", "command": "SELECT a FROM 'a.csv'"},
        }
    )

    assert [ran.kind(name) for name in ("write", "read")] == [None, None]
    assert ran.outcomes["read"]["result"]["rows"] == [{"a": 1}]
