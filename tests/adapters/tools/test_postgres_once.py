"""``spec.idempotency: key``: an action happens exactly once, whoever runs it again."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import asyncpg
import pytest
from pg_proxy import proxy

from noetl.adapters.tools.postgres.tool import PostgresTool
from noetl.engine.tasks.outcome import Outcome
from noetl.ports import ToolCall

Call = Callable[..., ToolCall]
Sql = Callable[..., Outcome]
Look = Callable[[str], list[tuple[Any, ...]]]
Settle = Callable[[Awaitable[Outcome]], Awaitable[Outcome]]

KEYED = {"idempotency": "key", "timeout": 30}
INSERT = "INSERT INTO t DEFAULT VALUES RETURNING id AS z, 1.10::numeric AS a, id AS id"


@pytest.fixture
def table(sql: Sql) -> None:
    sql("CREATE TABLE t (id serial PRIMARY KEY)")


@pytest.mark.usefixtures("table")
def test_a_second_run_returns_what_the_first_stored(sql: Sql, look: Look) -> None:
    first = sql(INSERT, KEYED)
    second = sql(INSERT, KEYED)

    assert second.result == first.result
    assert list(second.result["rows"][0]) == ["z", "a", "id"]
    assert look("SELECT count(*) FROM t") == [(1,)]
    assert look("SELECT execution_id, step, task, attempt FROM noetl_action") == [
        ("e1", "s", "t", 1)
    ]


@pytest.mark.usefixtures("table")
def test_another_action_happens_too(
    postgres: str, call: Call, using: Any, look: Look
) -> None:
    async def work(run: Any) -> None:
        for action in ("x", "y", "x"):
            given = {"dsn": postgres, "command": INSERT}
            await run(call("postgres", given, spec=KEYED, action_id=action))

    using(PostgresTool(), work)

    assert look("SELECT count(*) FROM t") == [(2,)]


@pytest.mark.usefixtures("table")
def test_a_failure_leaves_no_marker(sql: Sql, look: Look) -> None:
    failed = sql(f"{INSERT}; SELECT 1/0", KEYED)
    assert failed.error.kind == "pg.data"

    again = sql(INSERT, KEYED)

    assert again.status == "ok"
    assert look("SELECT count(*) FROM t") == [(1,)]


@pytest.mark.usefixtures("table")
def test_rows_and_csv_are_loaded_once(sql: Sql, look: Look) -> None:
    for _ in range(2):
        loaded = sql(None, KEYED, copy_from={"table": "t", "rows": [{"id": 7}]})
        assert loaded.result["rowcount"] == 1

    assert look("SELECT id FROM t") == [(7,)]


@pytest.mark.usefixtures("table")
def test_many_at_once_are_one(
    postgres: str, call: Call, outcome: Settle, look: Look
) -> None:
    """Owners with tools of their own, none of which finds the table of markers."""

    async def main() -> list[Outcome]:
        tools = [PostgresTool() for _ in range(8)]
        given = {"dsn": postgres, "command": INSERT}
        request = call("postgres", given, spec=KEYED)
        outcomes = await asyncio.gather(
            *(outcome(tool.run(request)) for tool in tools for _ in range(4))
        )
        for tool in tools:
            await tool.close()
        return list(outcomes)

    outcomes = asyncio.run(main())

    assert [each.error for each in outcomes] == [None] * 32
    assert all(each.result == outcomes[0].result for each in outcomes)
    assert look("SELECT count(*) FROM t") == [(1,)]
    assert look("SELECT count(*) FROM noetl_action") == [(1,)]


@pytest.mark.usefixtures("table")
def test_a_second_owner_waits_for_the_first(
    postgres: str, call: Call, outcome: Settle, look: Look
) -> None:
    async def main() -> tuple[Outcome, Outcome]:
        tool = PostgresTool()
        watcher = await asyncpg.connect(postgres)
        await watcher.execute("SELECT pg_advisory_lock(1)")
        slow = f"SELECT pg_advisory_xact_lock(1); {INSERT}"
        requests = [
            call("postgres", {"dsn": postgres, "command": command}, spec=KEYED)
            for command in (slow, INSERT)
        ]

        async def waiting(number: int) -> None:
            query = "SELECT count(*) FROM pg_locks WHERE NOT granted"
            while await watcher.fetchval(query) < number:
                pass

        first = asyncio.ensure_future(outcome(tool.run(requests[0])))
        await waiting(1)
        second = asyncio.ensure_future(outcome(tool.run(requests[1])))
        await waiting(2)
        await watcher.execute("SELECT pg_advisory_unlock(1)")
        outcomes = await first, await second
        await watcher.close()
        await tool.close()
        return outcomes

    first, second = asyncio.run(main())

    assert second.result == first.result
    assert look("SELECT count(*) FROM t") == [(1,)]


@pytest.mark.usefixtures("table")
def test_a_commit_with_a_lost_answer_is_found_again(
    postgres: str, postgres_server: int, call: Call, outcome: Settle, look: Look
) -> None:
    async def main() -> tuple[Outcome, Outcome]:
        tool = PostgresTool()
        async with proxy(postgres_server) as between:
            between.holds_commit = True
            dsn = postgres.replace(f":{postgres_server}/", f":{between.port}/")
            request = call("postgres", {"dsn": dsn, "command": INSERT}, spec=KEYED)
            running = asyncio.ensure_future(outcome(tool.run(request)))
            await between.committed.wait()
            between.cut()
            lost = await running
            between.holds_commit = False
            found = await outcome(tool.run(request))
            await tool.close()
            return lost, found

    lost, found = asyncio.run(main())

    assert (lost.error.kind, lost.error.retryable) == ("connection", True)
    assert "in_doubt" not in lost.error.details
    assert found.result["rows"][0]["id"] == 1
    assert look("SELECT id FROM t") == [(1,)]


PROGRAM = """
import asyncio, json, sys
from noetl.adapters.tools.postgres.tool import PostgresTool
from noetl.ports import ToolCall

async def main():
    outcome = await PostgresTool().run(ToolCall(**json.loads(sys.argv[1])))
    print(json.dumps(outcome.result))

asyncio.run(main())
"""


@pytest.mark.usefixtures("table")
def test_a_worker_killed_between_commit_and_report(
    postgres: str, postgres_server: int, look: Look
) -> None:
    async def start(dsn: str) -> asyncio.subprocess.Process:
        request = {
            "kind": "postgres",
            "inputs": {"dsn": dsn, "command": INSERT},
            "spec": KEYED,
            "execution_id": "e1",
            "step": "s",
            "task": "t",
            "action_id": "a1",
            "attempt": 1,
        }
        return await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", PROGRAM, json.dumps(request)),
            stdout=asyncio.subprocess.PIPE,
        )

    async def main() -> tuple[int | None, bytes, bytes]:
        async with proxy(postgres_server) as between:
            between.holds_commit = True
            first = await start(
                postgres.replace(f":{postgres_server}/", f":{between.port}/")
            )
            await between.committed.wait()
            first.send_signal(signal.SIGKILL)
            said, _ = await first.communicate()
        second = await start(postgres)
        stored, _ = await second.communicate()
        return first.returncode, said, stored

    killed, said, stored = asyncio.run(main())

    assert (killed, said) == (-signal.SIGKILL, b"")
    assert json.loads(stored)["rows"] == [{"z": 1, "a": 1.1, "id": 1}]
    assert look("SELECT id FROM t") == [(1,)]


def test_a_role_without_create_gets_a_hint(sql: Sql, postgres: str) -> None:
    sql("DROP ROLE IF EXISTS guest; CREATE ROLE guest LOGIN PASSWORD 'p'")
    dsn = postgres.partition("@")[2]

    outcome = sql("SELECT 1", KEYED, dsn=f"postgresql://guest:p@{dsn}")

    assert outcome.error.kind == "pg.permission"
    assert "noetl_action" in outcome.error.message
    assert outcome.error.details["sql"].startswith("CREATE TABLE")
