"""Where large values go: the store that a playbook chooses, on every host."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import asyncpg
import nats
import pytest
from nats.js.errors import NotFoundError
from nats_servers import NatsServer
from servers import Api, Running, WorkerProcess, playbook

pytestmark = pytest.mark.spec("RES-07", "EXE-06", "S-71")

WORKFLOW = """
- step: extract
  tool:
    - select:
        kind: duckdb
        command: SELECT i AS id, 'row ' || i AS name FROM range(60000) AS t(i)
    - count:
        kind: duckdb
        tables: {t: "{{ _prev.rows | ref }}"}
        command: SELECT count(*) AS n FROM t
        spec:
          policy:
            rules:
              - else:
                  then: {do: continue, set_ctx: {n: "{{ outcome.result.rows[0].n }}"}}
  next: {arcs: [{step: make}]}
- step: make
  tool: {kind: noop, result: "{{ 'text ' * 30000 }}"}
  next: {arcs: [{step: use, args: {text: "{{ event.payload.result }}"}}]}
- step: use
  tool: {kind: noop, result: "{{ args.text | length + ctx.n }}"}
"""
RESULT = 5 * 30_000 + 60_000


def text(store: str | None = None) -> str:
    root = f"executor: {{spec: {{result: {{store: {store}}}}}}}\n" if store else ""
    return playbook("stores", WORKFLOW, root)


@pytest.fixture
def cluster(tmp_path: Path, postgres: str) -> Iterator[Callable[..., Api]]:
    """A server that runs no tools, and a worker that shares nothing with it."""
    closing: list[Callable[[], Any]] = []

    def start(**options: Any) -> Api:
        server = Running(tmp_path / "server", database=postgres, slots=0, **options)
        worker = WorkerProcess(tmp_path / "worker", server.url, server.token)
        closing.extend([worker.stop, server.stop])
        return Api(server.url, server.token)

    yield start
    for close in closing:
        close()


def count_rows(address: str) -> int:
    async def ask() -> int:
        connection = await asyncpg.connect(address)
        sql = "SELECT count(*) FROM noetl.blob WHERE size > 65536"
        found: int = await connection.fetchval(sql)
        await connection.close()
        return found

    return asyncio.run(ask())


def take_objects(address: str, bucket: str) -> int:
    """How many large ones are in a bucket, which is then removed."""

    async def ask() -> int:
        client = await nats.connect(address)
        try:
            found = await client.jetstream().object_store(bucket)
            return sum((each.size or 0) > 65536 for each in await found.list())
        except NotFoundError:
            return 0
        finally:
            with suppress(NotFoundError):
                await client.jetstream().delete_object_store(bucket)
            await client.close()

    return asyncio.run(ask())


def files_below(*folders: Path) -> list[Path]:
    return [each for folder in folders for each in folder.rglob("*") if each.is_file()]


@pytest.mark.spec("RES-01", "S-48", "S-62", "WKR-01")
def test_a_cluster_needs_no_shared_folder(
    cluster: Callable[..., Api], postgres: str, tmp_path: Path
) -> None:
    done = cluster().run(text())

    assert (done["status"], done["result"]) == ("completed", RESULT)
    assert count_rows(postgres) == 2
    homes = tmp_path / "server", tmp_path / "worker"
    assert files_below(*(home / "results" for home in homes)) == []
    assert files_below(*(home / "tmp" / "results" for home in homes)) == []


def test_a_cluster_keeps_them_in_nats_if_the_playbook_says_so(
    cluster: Callable[..., Api], postgres: str, nats_server: NatsServer
) -> None:
    api = cluster(nats=nats_server.address)

    done = api.run(text("{kind: nats_object, bucket: chosen}"))

    assert (done["status"], done["result"]) == ("completed", RESULT)
    assert take_objects(nats_server.address, "chosen") == 2
    assert count_rows(postgres) == 0


def test_a_run_keeps_them_in_nats_if_the_playbook_says_so(
    shell: Any, nats_server: NatsServer
) -> None:
    shell.set(NOETL_NATS=nats_server.address)
    (shell.folder / "t.yaml").write_text(text("{kind: nats_object, bucket: mine}"))

    done = shell.run("t.yaml")
    made = next(step for step in done["steps"] if step["step"] == "make")
    fetched = shell.noetl("result", "get", made["result"]["key"])
    listed = json.loads(shell.noetl("result", "ls", "last", "--json").stdout)

    assert (done["status"], done["result"]) == ("completed", RESULT)
    assert json.loads(fetched.stdout) == "text " * 30_000
    assert {each["there"] for each in listed["results"]} == {True}
    assert take_objects(nats_server.address, "mine") == 2


@pytest.mark.parametrize(
    ("store", "why"),
    [
        ("{kind: nats_object}", "nats_object needs the setting nats on this host"),
        ("{kind: postgres}", "there is no 'postgres' here, there is file, nats_object"),
        ("{kind: file, bucket: b}", "a bucket needs the store nats_object"),
        ("{kind: nats}", "there is no 'nats' here"),
    ],
)
def test_what_the_host_lacks_is_a_warning(shell: Any, store: str, why: str) -> None:
    (shell.folder / "t.yaml").write_text(text(store))

    done = shell.noetl("run", "t.yaml", "--json")

    assert json.loads(done.stdout)["result"] == RESULT
    assert done.stderr.count("executor.spec.result.store") == 1
    assert why in done.stderr
    assert f"results go to {shell.home / 'results'}" in done.stderr


def test_a_foreign_bucket_is_not_used(shell: Any, nats_server: NatsServer) -> None:
    async def make() -> None:
        client = await nats.connect(nats_server.address)
        await client.jetstream().create_object_store("theirs")
        await client.close()

    asyncio.run(make())
    shell.set(NOETL_NATS=nats_server.address)
    (shell.folder / "t.yaml").write_text(text("{kind: nats_object, bucket: theirs}"))

    done = shell.noetl("run", "t.yaml", "--json")

    assert json.loads(done.stdout)["result"] == RESULT
    assert "the NATS bucket theirs was not made by NoETL" in done.stderr
    assert "; results go to" in done.stderr
    assert take_objects(nats_server.address, "theirs") == 0
