"""``noetl run`` with the kind ``postgres``: the example, a kill, a deadline."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from databases import PASSWORD
from pg_proxy import proxy

EXAMPLE = Path(__file__).parents[2] / "examples" / "postgres_etl.yaml"
HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: tests/t}\n"
TASK = HEAD + (
    "workload: {dsn: ''}\n"
    "workflow:\n"
    "  - step: start\n"
    '    tool: {kind: postgres, dsn: "{{ workload.dsn }}", command: COMMAND}\n'
)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


async def start(home: Path, *args: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "noetl", *args),
        env={**os.environ, "NOETL_HOME": str(home)},
        stdout=asyncio.subprocess.PIPE,
    )


async def noetl(home: Path, *args: str) -> tuple[int | None, Any]:
    process = await start(home, *args, "--json")
    stdout, _ = await process.communicate()
    return process.returncode, json.loads(stdout)


async def ask(postgres: str, query: str) -> Any:
    connection = await asyncpg.connect(postgres)
    try:
        return await connection.fetchval(query)
    finally:
        await connection.close()


@pytest.mark.spec("PIPE-13")
def test_the_example_runs_as_often_as_one_likes(home: Path, postgres: str) -> None:
    arguments = ("run", str(EXAMPLE), "--set", f"dsn={postgres}")
    for _ in range(2):
        code, document = asyncio.run(noetl(home, *arguments))

        assert (code, document["error"]) == (0, None)
        assert document["result"]["rows"] == [
            {"region": "north", "orders": 2, "amount": 20},
            {"region": "south", "orders": 1, "amount": 5},
        ]


@pytest.mark.spec("PIPE-13")
def test_killed_after_the_commit_and_resumed_it_happened_once(
    home: Path, tmp_path: Path, postgres: str, postgres_server: int
) -> None:
    file = tmp_path / "playbook.yaml"
    insert = '"INSERT INTO t DEFAULT VALUES RETURNING id", spec: {idempotency: key}'
    file.write_text(TASK.replace("COMMAND", insert))

    async def main() -> tuple[int | None, int | None, Any, Any]:
        await ask(postgres, "CREATE TABLE t (id serial)")
        async with proxy(postgres_server) as between:
            dsn = postgres.replace(f":{postgres_server}/", f":{between.port}/")
            between.holds_commit = True
            first = await start(home, "run", str(file), "--set", f"dsn={dsn}")
            await between.committed.wait()
            first.send_signal(signal.SIGKILL)
            await first.communicate()
            between.holds_commit = False
            _, listed = await noetl(home, "list")
            (left,) = listed["executions"]
            code, document = await noetl(home, "resume", left["execution_id"])
        rows = await ask(postgres, "SELECT array_agg(id) FROM t")
        return first.returncode, code, document, rows

    killed, code, document, rows = asyncio.run(main())

    assert (killed, code) == (-signal.SIGKILL, 0)
    assert document["result"]["rows"] == [{"id": 1}]
    assert rows == [1]


@pytest.mark.spec("S-35")
def test_a_deadline_of_the_execution_stops_the_query(
    home: Path, tmp_path: Path, postgres: str
) -> None:
    file = tmp_path / "playbook.yaml"
    file.write_text(TASK.replace("COMMAND", "SELECT pg_sleep(600)"))
    active = "SELECT count(*) FROM pg_stat_activity WHERE query LIKE '%sleep(6%'"
    active += " AND state = 'active' AND pid <> pg_backend_pid()"

    async def main() -> tuple[int | None, Any, Any]:
        arguments = ("run", str(file), "--set", f"dsn={postgres}", "--timeout", "1s")
        code, document = await noetl(home, *arguments)
        return code, document, await ask(postgres, active)

    code, document, left = asyncio.run(main())

    assert (code, document["status"]) == (1, "cancelled")
    assert left == 0


def test_a_wrong_password_is_an_error_without_it(
    home: Path, tmp_path: Path, postgres: str
) -> None:
    file = tmp_path / "playbook.yaml"
    file.write_text(TASK.replace("COMMAND", "SELECT 1"))
    dsn = postgres.replace("s3cret", "wr0ng")

    code, document = asyncio.run(noetl(home, "run", str(file), "--set", f"dsn={dsn}"))

    assert (code, document["error"]["kind"]) == (1, "auth")
    assert "wr0ng" not in json.dumps([document["error"], document["steps"]])
    assert PASSWORD not in json.dumps(document)
