"""Kind ``postgres`` when things go wrong: errors, time, cancelling, lost links."""

from __future__ import annotations

import asyncio
import socketserver
import ssl
import subprocess
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from databases import PASSWORD
from pg_proxy import proxy

from noetl.adapters.tools.postgres import connections
from noetl.adapters.tools.postgres.tool import PostgresTool
from noetl.engine.tasks.outcome import Outcome
from noetl.ports import ToolCall

Call = Callable[..., ToolCall]
Sql = Callable[..., Outcome]
Look = Callable[[str], list[tuple[Any, ...]]]
Settle = Callable[[Awaitable[Outcome]], Awaitable[Outcome]]

TABLES = (
    "CREATE TABLE parent (id int PRIMARY KEY, name text NOT NULL,"
    " age int CONSTRAINT adult CHECK (age > 17));"
    "CREATE TABLE child (parent int REFERENCES parent);"
    "INSERT INTO parent VALUES (1, 'a', 20)"
)
ACTIVE = (
    "SELECT count(*) FROM pg_stat_activity"
    " WHERE application_name = 'noetl a1' AND state = 'active'"
)


@pytest.mark.spec("S-65", "OUT-11")
@pytest.mark.parametrize(
    ("command", "kind", "sqlstate", "details"),
    [
        pytest.param(
            "INSERT INTO parent VALUES (1, 'b', 20)",
            "pg.unique_violation",
            "23505",
            {"constraint": "parent_pkey", "table": "parent"},
            id="a key twice",
        ),
        pytest.param(
            "INSERT INTO child VALUES (7)",
            "pg.foreign_key_violation",
            "23503",
            {"table": "child"},
            id="no parent",
        ),
        pytest.param(
            "INSERT INTO parent VALUES (2, NULL, 20)",
            "pg.not_null_violation",
            "23502",
            {"column": "name"},
            id="a null",
        ),
        pytest.param(
            "INSERT INTO parent VALUES (2, 'b', 3)",
            "pg.check_violation",
            "23514",
            {"constraint": "adult"},
            id="a check",
        ),
        pytest.param(
            "SELECT 1 +\n  FROM parent",
            "pg.syntax",
            "42601",
            {"line": 2, "position": 3, "sql": "FROM parent"},
            id="bad grammar",
        ),
        pytest.param(
            "SELECT nope FROM parent",
            "pg.undefined",
            "42703",
            {"line": 1, "position": 8},
            id="no such column",
        ),
        pytest.param(
            "CREATE TABLE parent ()", "pg.duplicate", "42P07", {"line": 1}, id="twice"
        ),
        pytest.param("SELECT 1/0", "pg.data", "22012", {}, id="a division by zero"),
        pytest.param("SELECT 'x'::int", "pg.data", "22P02", {"position": 8}, id="text"),
        pytest.param(
            "DO $$ BEGIN RAISE EXCEPTION 'no' USING HINT = 'ask'; END $$",
            "pg.raised",
            "P0001",
            {"hint": "ask"},
            id="raised",
        ),
        pytest.param("SELECT $$", "pg.syntax", "42601", {}, id="a quote without end"),
        pytest.param(
            "DELETE FROM parent /* WHERE id = 2",
            "pg.syntax",
            "42601",
            {},
            id="a comment without end",
        ),
        pytest.param(
            "SET LOCAL statement_timeout = 50; SELECT pg_sleep(60)",
            "timeout",
            "57014",
            {"statement": 2},
            id="a timeout of the SQL itself",
        ),
        pytest.param(
            "SET LOCAL ROLE pg_monitor; DELETE FROM parent",
            "pg.permission",
            "42501",
            {"statement": 2},
            id="not allowed",
        ),
        pytest.param(
            "SELECT NULL::pg_node_tree, 1::aclitem",
            "pg.syntax",
            "42846",
            {},
            id="a cast that does not exist",
        ),
    ],
)
def test_errors_of_the_server(
    command: str,
    kind: str,
    sqlstate: str,
    details: dict[str, Any],
    sql: Sql,
    look: Look,
) -> None:
    sql(TABLES)

    outcome = sql(command)

    assert outcome.status == "error"
    assert (outcome.error.kind, outcome.helper["sqlstate"]) == (kind, sqlstate)
    assert outcome.helper["code"] == sqlstate
    assert outcome.error.details["sqlstate"] == sqlstate
    assert details.items() <= outcome.error.details.items()
    assert look("SELECT count(*) FROM parent") == [(1,)]


def test_the_place_of_an_error_is_the_author_s(sql: Sql) -> None:
    outcome = sql(
        "SELECT 1;\n-- then\nSELECT :day::date,\n  :n, nope",
        params={"day": "2024-01-01", "n": 1},
    )

    assert {"statement": 2, "line": 4, "position": 7, "sql": ":n, nope"}.items() <= (
        outcome.error.details.items()
    )
    assert outcome.error.message == 'column "nope" does not exist (line 4: :n, nope)'


@pytest.mark.parametrize(
    ("command", "params", "kind", "sqlstate"),
    [
        pytest.param("SELECT :a::text", {"a": "x\0y"}, "pg.data", "22021", id="NUL"),
        pytest.param("SELECT 'x\0y'", None, "pg.data", "22021", id="NUL in the SQL"),
        pytest.param("SELECT :a::text", {"a": "\ud800"}, "pg.data", None, id="half"),
        pytest.param("SELECT '\ud800'", None, "pg.data", None, id="half in the SQL"),
        pytest.param("SELECT :a::int", {"a": 2**40}, "pg.data", "22003", id="large"),
        pytest.param("SELECT :a::jsonb", {"a": "x"}, "pg.data", "22P02", id="no JSON"),
        pytest.param(
            "SELECT :a::int[]", {"a": [[1], [2, 3]]}, "pg.data", "22P02", id="ragged"
        ),
    ],
)
def test_values_that_do_not_fit(
    command: str, params: Any, kind: str, sqlstate: str | None, sql: Sql
) -> None:
    outcome = sql(command, params=params)

    assert outcome.error.kind == kind
    assert outcome.helper.get("sqlstate") == sqlstate


def test_text_that_is_not_utf_8_is_said_and_the_connection_goes_on(
    postgres: str, call: Call, using: Any, outcome: Settle
) -> None:
    """A database of encoding SQL_ASCII keeps any bytes."""
    raw = postgres.rpartition("/")[0] + "/raw"

    async def work(run: Any) -> list[Outcome]:
        def ask(dsn: str, command: str) -> Awaitable[Outcome]:
            spec = {"transaction": False, "timeout": 30}
            given = {"dsn": dsn, "command": command}
            return outcome(run(call("postgres", given, spec=spec)))

        await ask(postgres, "DROP DATABASE IF EXISTS raw")
        await ask(
            postgres, "CREATE DATABASE raw ENCODING 'SQL_ASCII' TEMPLATE template0"
        )
        return [
            await ask(raw, "SELECT E'\\xff'::text"),
            await ask(raw, "SELECT 1 AS a"),
        ]

    broken, fine = using(PostgresTool(), work)

    assert (broken.error.kind, broken.helper["sqlstate"]) == ("pg.data", "22021")
    assert fine.result["rows"] == [{"a": 1}]


def test_an_encoding_of_the_scripts_own_does_not_crash(sql: Sql) -> None:
    outcome = sql("SET LOCAL client_encoding = 'LATIN1'; SELECT '[\"\\u00e9\"]'::jsonb")

    assert outcome.error.kind == "pg.decode"


@pytest.mark.spec("S-65")
@pytest.mark.parametrize(
    ("change", "kind", "retryable"),
    [
        pytest.param(("postgres:", "nobody:"), "auth", False, id="a wrong user"),
        pytest.param(("s3cret", "wr0ng-s3cret"), "auth", False, id="a wrong password"),
        pytest.param(
            ("/postgres", "/nowhere"), "pg.undefined", False, id="no database"
        ),
        pytest.param(("127.0.0.1:", "127.0.0.1:1?"), "tool.contract", False, id="?"),
        pytest.param(("postgres?", "x"), "connection", True, id="nobody listens"),
        pytest.param(("END", "?sslmode=require"), "pg.tls", False, id="no TLS there"),
    ],
)
def test_no_connection_and_no_word_of_the_password(
    change: tuple[str, str], kind: str, retryable: bool, sql: Sql, postgres: str
) -> None:
    dsn = postgres
    if change[0] == "END":
        dsn += change[1]
    elif change[1] == "x":
        head, _, tail = dsn.rpartition(":")
        dsn = f"{head}:1/{tail.partition('/')[2]}"
    elif change[0] == "/postgres":
        dsn = dsn.rpartition("/")[0] + change[1]
    else:
        dsn = dsn.replace(*change, 1)

    outcome = sql("SELECT 1", dsn=dsn)

    assert (outcome.error.kind, outcome.error.retryable) == (kind, retryable)
    told = f"{outcome.error} {outcome.helper}"
    for secret in (PASSWORD, "s3cret", "of%3Atests"):
        assert secret not in told


class Ending(socketserver.BaseRequestHandler):
    """A server in its last moment: it does not even say whether it has TLS."""

    def handle(self) -> None:
        self.request.recv(8)
        self.request.sendall(b"?")


@pytest.mark.spec("S-65")
@pytest.mark.parametrize(
    ("mode", "kind", "retryable"),
    [("", "connection", True), ("?sslmode=require", "pg.tls", False)],
)
def test_a_server_that_is_just_ending_is_worth_another_try(
    mode: str, kind: str, retryable: bool, sql: Sql
) -> None:
    with socketserver.TCPServer(("127.0.0.1", 0), Ending) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        port = server.server_address[1]
        outcome = sql("SELECT 1", dsn=f"postgresql://me@127.0.0.1:{port}/x{mode}")
        server.shutdown()

    assert (outcome.error.kind, outcome.error.retryable) == (kind, retryable)


@asynccontextmanager
async def watching(postgres: str) -> AsyncIterator[Callable[[str], Awaitable[Any]]]:
    connection = await asyncpg.connect(postgres)
    try:
        yield connection.fetchval
    finally:
        await connection.close()


@pytest.mark.spec("S-35")
@pytest.mark.parametrize("transaction", [True, False])
def test_a_query_that_is_too_late_is_stopped_on_the_server(
    transaction: bool, postgres: str, call: Call, using: Any, outcome: Settle
) -> None:
    async def work(run: Any) -> tuple[Outcome, int, Outcome]:
        async with watching(postgres) as ask:
            spec = {"timeout": 0.2, "transaction": transaction}
            given = {"dsn": postgres, "command": "SELECT pg_sleep(600)"}
            late = await outcome(run(call("postgres", given, spec=spec)))
            left = await ask(ACTIVE)
            given = {"dsn": postgres, "command": "SELECT 1"}
            return late, left, await run(call("postgres", given))

    late, left, next_one = using(PostgresTool(), work)

    assert (late.error.kind, late.error.retryable) == ("timeout", True)
    assert left == 0
    assert next_one.status == "ok"


@pytest.mark.spec("S-35", "PIPE-13")
@pytest.mark.parametrize(
    "inputs",
    [
        pytest.param({"command": "SELECT pg_sleep(600)"}, id="a query"),
        pytest.param(
            {"copy_to": {"query": "SELECT pg_sleep(600)"}}, id="while unloading"
        ),
        pytest.param(
            {"command": "DO $$ BEGIN LOOP PERFORM 1; END LOOP; END $$"}, id="a loop"
        ),
    ],
)
def test_a_cancelled_call_leaves_nothing_running(
    inputs: dict[str, Any], postgres: str, call: Call, using: Any
) -> None:
    async def work(run: Any) -> int:
        async with watching(postgres) as ask:
            request = call("postgres", {"dsn": postgres, **inputs})
            running = asyncio.ensure_future(run(request))
            while not await ask(ACTIVE):
                assert not running.done()
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            return int(await ask(ACTIVE))

    assert using(PostgresTool(), work) == 0


@pytest.mark.spec("S-35", "PIPE-13")
def test_a_query_whose_cancellation_is_lost_is_stopped_by_another_connection(
    postgres: str,
    postgres_server: int,
    call: Call,
    using: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(connections, "_CLOSE_TIMEOUT_S", 0.1)

    async def work(run: Any) -> int:
        async with watching(postgres) as ask, proxy(postgres_server) as between:
            between.drops_cancellations = True
            dsn = postgres.replace(f":{postgres_server}/", f":{between.port}/")
            query = {"dsn": dsn, "command": "SELECT pg_sleep(600)"}
            running = asyncio.ensure_future(run(call("postgres", query)))
            while not await ask(f"{ACTIVE} AND wait_event = 'PgSleep'"):
                assert not running.done()
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            return int(await ask(ACTIVE))

    assert using(PostgresTool(), work) == 0


def test_closing_waits_for_a_call_that_is_being_stopped(
    postgres: str, call: Call
) -> None:
    async def main() -> tuple[int, int]:
        tool = PostgresTool()
        async with watching(postgres) as ask:
            given = {"dsn": postgres, "command": "SELECT pg_sleep(600)"}
            running = asyncio.ensure_future(tool.run(call("postgres", given)))
            while not await ask(ACTIVE):
                assert not running.done()
            running.cancel()  # and nobody waits for it, as when a worker stops
            await asyncio.sleep(0)
            await tool.close()
            left = await ask(ACTIVE)
            with pytest.raises(asyncio.CancelledError):
                await running
            return left, len(asyncio.all_tasks())

    assert asyncio.run(main()) == (0, 1)


def test_waiting_for_a_free_connection_has_an_end(
    postgres: str, call: Call, using: Any, outcome: Settle
) -> None:
    async def work(run: Any) -> Outcome:
        async with watching(postgres) as ask:
            first = call(
                "postgres",
                {"dsn": postgres, "command": "SELECT pg_sleep(600)"},
                spec={"connections": 1, "timeout": 60},
            )
            running = asyncio.ensure_future(run(first))
            while not await ask(ACTIVE):
                assert not running.done()
            second = call(
                "postgres",
                {"dsn": postgres, "command": "SELECT 1"},
                spec={"connections": 1, "timeout": 0.1},
            )
            late = await outcome(run(second))
            running.cancel()
            await asyncio.wait([running])
            return late

    late = using(PostgresTool(), work)

    assert late.error.kind == "timeout"
    assert "spec.connections" in late.error.message


KILL = (
    "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
    " WHERE application_name = 'noetl a1' AND "
)


@pytest.mark.spec("S-65")
@pytest.mark.parametrize(
    ("command", "spec", "retryable", "in_doubt"),
    [
        pytest.param(
            "INSERT INTO t VALUES (1); SELECT pg_sleep(600)",
            {},
            True,
            None,
            id="within a transaction: it is undone",
        ),
        pytest.param(
            "INSERT INTO t SELECT 1 FROM pg_sleep(600)",
            {"transaction": False},
            False,
            True,
            id="committing by itself: nobody knows",
        ),
        pytest.param(
            "SELECT count(*), max(a) FROM t, pg_sleep(600)",
            {"transaction": False},
            True,
            None,
            id="only reading",
        ),
    ],
)
def test_a_lost_connection(
    command: str,
    spec: dict[str, Any],
    retryable: bool,
    in_doubt: bool | None,
    postgres: str,
    call: Call,
    using: Any,
    outcome: Settle,
    sql: Sql,
) -> None:
    sql("CREATE TABLE t (a int); INSERT INTO t VALUES (0)")

    async def work(run: Any) -> tuple[Outcome, Outcome]:
        async with watching(postgres) as ask:
            given = {"dsn": postgres, "command": command}
            request = call("postgres", given, spec={"timeout": 60, **spec})
            running = asyncio.ensure_future(run(request))
            while not await ask(KILL + "wait_event = 'PgSleep'"):
                assert not running.done()
            lost = await outcome(running)
            again = call("postgres", {"dsn": postgres, "command": "SELECT 1"})
            return lost, await run(again)

    lost, again = using(PostgresTool(), work)

    assert (lost.error.kind, lost.error.retryable) == ("connection", retryable)
    assert lost.error.details.get("in_doubt") == in_doubt
    assert again.status == "ok"


@pytest.mark.spec("S-65")
@pytest.mark.parametrize("place", range(8))
def test_a_connection_lost_anywhere_is_a_lost_connection(
    place: int, postgres: str, call: Call, using: Any, outcome: Settle
) -> None:
    """Terminated after so many statements, perhaps between two of them."""

    async def work(run: Any) -> tuple[Outcome, Outcome]:
        async with watching(postgres) as ask:
            given = {"dsn": postgres, "command": "SELECT 1;" * 5000}
            running = asyncio.ensure_future(outcome(run(call("postgres", given))))
            for _ in range(place):
                await ask("SELECT 1")
            while not await ask(KILL + "true"):
                assert not running.done()
            lost = await running
            again = call("postgres", {"dsn": postgres, "command": "SELECT 1"})
            return lost, await run(again)

    lost, again = using(PostgresTool(), work)

    assert (lost.error.kind, lost.error.retryable) == ("connection", True)
    assert again.status == "ok"


@pytest.mark.spec("S-65")
def test_a_connection_lost_at_commit_is_in_doubt(
    postgres: str,
    postgres_server: int,
    call: Call,
    outcome: Settle,
    sql: Sql,
    look: Look,
) -> None:
    sql("CREATE TABLE t (a int)")

    async def main() -> Outcome:
        tool = PostgresTool()
        async with proxy(postgres_server) as between:
            between.holds_commit = True
            dsn = postgres.replace(f":{postgres_server}/", f":{between.port}/")
            given = {"dsn": dsn, "command": "INSERT INTO t VALUES (1)"}
            running = asyncio.ensure_future(outcome(tool.run(call("postgres", given))))
            await between.committed.wait()
            between.cut()
            lost = await running
            await tool.close()
            return lost

    lost = asyncio.run(main())

    assert look("SELECT a FROM t") == [(1,)]
    assert (lost.error.kind, lost.error.retryable) == ("connection", False)
    assert lost.error.details["in_doubt"] is True
    assert "spec.idempotency" in lost.error.message


@pytest.mark.spec("S-65")
def test_others_in_the_way_are_worth_another_try(
    postgres: str, call: Call, using: Any, outcome: Settle, sql: Sql
) -> None:
    """Two transactions that each wait for the other, and two that cannot both be."""
    sql("CREATE TABLE t (id int, a int); INSERT INTO t VALUES (1, 0), (2, 0)")
    # Each says that it holds its first row, and goes on when both do.
    lock = "SELECT pg_advisory_xact_lock_shared({n})"
    deadlock = (
        "SET LOCAL deadlock_timeout = '10ms';"
        "UPDATE t SET a = 1 WHERE id = {first};"
        f"{lock};"
        "DO $$ BEGIN WHILE (SELECT count(*) FROM pg_locks"
        " WHERE locktype = 'advisory') < 2 LOOP END LOOP; END $$;"
        "UPDATE t SET a = 1 WHERE id = {second}"
    )

    async def work(run: Any) -> list[Outcome]:
        def ask(command: str) -> Awaitable[Outcome]:
            return outcome(run(call("postgres", {"dsn": postgres, "command": command})))

        return list(
            await asyncio.gather(
                ask(deadlock.format(n=1, first=1, second=2)),
                ask(deadlock.format(n=2, first=2, second=1)),
            )
        )

    outcomes = using(PostgresTool(), work)

    failed = [each for each in outcomes if each.error]
    assert len(failed) == 1
    assert (failed[0].error.kind, failed[0].error.retryable) == ("pg.deadlock", True)


@pytest.mark.spec("S-65")
def test_a_serialization_failure_is_worth_another_try(
    postgres: str, call: Call, using: Any, outcome: Settle, sql: Sql
) -> None:
    sql("CREATE TABLE t (a int); INSERT INTO t VALUES (0)")

    async def work(run: Any) -> Outcome:
        connection = await asyncpg.connect(postgres)
        command = (
            "BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT a FROM t;"
            "UPDATE t SET a = a + 1; COMMIT"
        )
        try:
            await connection.execute("BEGIN; UPDATE t SET a = 5")
            given = {"dsn": postgres, "command": command}
            running = asyncio.ensure_future(run(call("postgres", given)))
            waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted"
            async with watching(postgres) as ask:
                while not await ask(waiting):
                    assert not running.done()
            await connection.execute("COMMIT")
            return await outcome(running)
        finally:
            await connection.close()

    failed = using(PostgresTool(), work)

    assert (failed.error.kind, failed.error.retryable) == ("pg.serialization", True)
    assert failed.helper["sqlstate"] == "40001"


def test_a_type_that_changes_is_seen_anew(
    postgres: str, call: Call, using: Any, outcome: Settle
) -> None:
    async def work(run: Any) -> list[Outcome]:
        found = []
        for command in (
            "CREATE TYPE pair AS (a int); SELECT ROW(1)::pair AS v",
            "ALTER TYPE pair ADD ATTRIBUTE b int",
            "SELECT ROW(1, 2)::pair AS v",
            "SELECT ROW(1, 2)::pair AS v",
        ):
            request = call("postgres", {"dsn": postgres, "command": command})
            found.append(await outcome(run(request)))
        return found

    *_, stale, fresh = using(PostgresTool(), work)

    assert stale.error is None or stale.error.retryable
    assert fresh.result["rows"] == [{"v": {"a": 1, "b": 2}}]


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key, and a certificate of ``localhost`` that it signed itself."""
    folder = tmp_path_factory.mktemp("tls")
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"]
    command += ["-subj", "/CN=localhost", "-addext", "subjectAltName=DNS:localhost"]
    command += ["-keyout", str(folder / "key.pem"), "-out", str(folder / "cert.pem")]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except FileNotFoundError:
        pytest.skip("openssl is not installed")
    return folder


@pytest.mark.parametrize(
    ("host", "mode", "trusted", "kind"),
    [
        pytest.param("localhost", "require", False, None, id="encrypted"),
        pytest.param("localhost", "verify-full", True, None, id="known"),
        pytest.param("127.0.0.1", "verify-ca", True, None, id="known by its issuer"),
        pytest.param("127.0.0.1", "verify-full", True, "pg.tls", id="another name"),
        pytest.param("localhost", "verify-full", False, "pg.tls", id="unknown"),
    ],
)
def test_tls(
    host: str,
    mode: str,
    trusted: bool,
    kind: str | None,
    certificate: Path,
    postgres_server: int,
    postgres: str,
    call: Call,
    outcome: Settle,
) -> None:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate / "cert.pem", certificate / "key.pem")
    auth: dict[str, Any] = {"host": host, "user": "postgres", "password": PASSWORD}
    auth |= {"database": "postgres", "sslmode": mode}
    if trusted:
        auth["sslrootcert"] = (certificate / "cert.pem").read_text()

    async def main() -> Outcome:
        tool = PostgresTool()
        async with proxy(postgres_server, context) as between:
            given = {"auth": {**auth, "port": between.port}, "command": "SELECT 1 AS a"}
            found = await outcome(tool.run(call("postgres", given)))
            await tool.close()
            return found

    found = asyncio.run(main())

    assert (found.error and found.error.kind) == kind
