"""A home and a database of the last version that kept a row for each event."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import re
import sqlite3
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import asyncpg
import pytest
from servers import Api, Running

from noetl.adapters.postgres import Postgres
from noetl.adapters.stores.postgres import PostgresStore
from noetl.adapters.stores.sqlite import SqliteStore

OLDER = Path(__file__).parent / "older"
READER = Path(__file__).parents[2] / "scripts" / "read_log.py"
DOUBLED = {"completed": "over", "paused": list(range(1, 9)), "waiting": "by ana"}


class Store:
    """The home, and the address of the database if the log is there."""

    def __init__(self, home: Path, database: str | None) -> None:
        self.home, self.database = home, database
        self.log = home / "log-server.db"

    @property
    def address(self) -> str:
        return self.database or str(self.log)

    @contextmanager
    def served(self) -> Iterator[Api]:
        server = Running(self.home, database=self.database)
        try:
            yield Api(server.url, server.token)
        finally:
            server.stop()

    def count(self, table: str) -> int:
        query = f"SELECT count(*) FROM {table}"
        if self.database is not None:
            return int(asyncio.run(ask(self.database, query)))
        db = sqlite3.connect(self.log)
        [found] = db.execute(query).fetchone()
        db.close()
        return int(found)

    def check(self) -> dict[str, list[Any]]:
        """Verify all logs; return their events by execution."""
        return asyncio.run(self._check())

    async def _check(self) -> dict[str, list[Any]]:
        postgres = None
        store: SqliteStore | PostgresStore
        if self.database is not None:
            postgres = Postgres(self.database)
            store = await PostgresStore.open(postgres)
        else:
            store = SqliteStore.open(self.log)
        events: dict[str, list[Any]] = {}
        for each in await store.find():
            name = each.execution_id
            assert await store.verify(name) is None
            events[name] = list(await store.read(name))
        await (postgres or store).close()  # type: ignore[union-attr]
        return events


async def ask(address: str, query: str) -> Any:
    settings = {"search_path": "noetl"}
    connection = await asyncpg.connect(address, server_settings=settings)
    found = await connection.fetchval(query)
    await connection.close()
    return found


async def restore(address: str) -> None:
    connection = await asyncpg.connect(address)
    dump = gzip.decompress((OLDER / "database.sql.gz").read_bytes())
    await connection.execute(dump.decode())
    await connection.close()


def kept_home(home: Path) -> Store:
    with tarfile.open(OLDER / "home.tar.gz") as kept:
        kept.extractall(home, filter="data")
    return Store(home, None)


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Store:
    home = tmp_path / "home"
    if request.param == "sqlite":
        return kept_home(home)
    home.mkdir(mode=0o700)
    database: str = request.getfixturevalue("postgres")
    asyncio.run(restore(database))
    return Store(home, database)


def kept_by(api: Api) -> dict[str, dict[str, Any]]:
    """The lines of the executions, by the label that says how each was left."""
    answer = api.get("/api/executions")
    assert answer.status == 200, answer.body
    return {each["labels"]["kept"]: each for each in answer.body["executions"]}


def events_of(api: Api, execution_id: str) -> list[dict[str, Any]]:
    answer = api.get(f"/api/executions/{execution_id}/events?limit=1000")
    assert answer.status == 200, answer.body
    found: list[dict[str, Any]] = answer.body["events"]
    return found


@pytest.mark.spec("REP-01", "S-62")
def test_what_it_left_is_shown_and_comes_to_its_end(store: Store) -> None:
    left = store.count("event")
    with store.served() as api:
        lines = kept_by(api)
        assert lines["completed"]["status"] == "completed"
        assert lines["paused"]["status"] == "paused"
        ids = {kept: line["execution_id"] for kept, line in lines.items()}
        before = {kept: events_of(api, ids[kept]) for kept in ("completed", "paused")}
        for events in before.values():
            assert [each["seq"] for each in events] == [*range(1, len(events) + 1)]
        shown = api.get(f"/api/executions/{ids['paused']}").body
        assert shown["events"] == len(before["paused"])
        assert 1 <= shown["steps"][0]["iterations"]["done"] < 8

        answer = api.post(f"/api/executions/{ids['paused']}/resume")
        assert answer.status == 200, answer.body
        signal = {"name": "approved", "data": {"by": "ana"}}
        answer = api.post(f"/api/executions/{ids['waiting']}/signal", signal)
        assert answer.status == 200, answer.body
        ended = {kept: api.finish(ids[kept]) for kept in ids}
        after = {kept: events_of(api, ids[kept]) for kept in before}

    assert {each["status"] for each in ended.values()} == {"completed"}
    for kept, result in DOUBLED.items():
        assert ended[kept]["result"] == result
    assert ended["killed"]["result"] == DOUBLED["paused"]
    for kept, events in before.items():
        assert after[kept][: len(events)] == events
    events = store.check()
    assert {each.seq for each in events[ids["paused"]]} == {
        each["seq"] for each in after["paused"]
    }
    assert store.count("event") == left
    assert store.count("batch") > 0


def test_commands_read_the_home_before_any_server_opens_it(shell: Any) -> None:
    kept_home(shell.home)

    lines = {each["labels"]["kept"]: each for each in shell.executions()}
    shown = shell.noetl("show", lines["completed"]["execution_id"], "--json")
    told = shell.noetl("events", lines["paused"]["execution_id"])
    result = shell.noetl("result", "ls", lines["completed"]["execution_id"])

    assert lines.keys() == {"completed", "waiting", "paused", "killed"}
    document = json.loads(shown.stdout)
    assert document["result"] == "over"
    assert document["steps"][1]["iterations"]["done"] == 5
    assert told.stdout.splitlines()[-1].split()[0] == str(len(told.stdout.splitlines()))
    assert result.returncode == 0, result.stderr


def read_log(*args: str) -> list[str]:
    command = [sys.executable, str(READER), *args]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


def test_a_script_without_noetl_reads_old_and_new_rows(store: Store) -> None:
    """Its lines are those of the export, and of the API."""
    with store.served() as api:
        ids = {kept: line["execution_id"] for kept, line in kept_by(api).items()}
        api.post(f"/api/executions/{ids['paused']}/resume")
        for kept in ("paused", "killed"):
            api.finish(ids[kept])
        events = {name: events_of(api, name) for name in ids.values()}

    found = read_log(store.address)

    assert store.count("batch") > 0
    told = [each for name in sorted(events) for each in events[name]]
    assert [json.loads(line) for line in found] == told
    assert read_log(store.address, ids["paused"]) == [
        line for line in found if ids["paused"] in line
    ]
    if store.database is None:
        assert found == export(store.home)


def export(home: Path) -> list[str]:
    command = [sys.executable, "-m", "noetl", "events", "all", "--export", "jsonl", "-"]
    environ = {**os.environ, "NOETL_HOME": str(home)}
    done = subprocess.run(command, env=environ, capture_output=True, check=True)
    lines = done.stdout.decode().splitlines()
    return sorted(lines, key=lambda line: order(json.loads(line)))


def order(event: dict[str, Any]) -> tuple[str, int]:
    return event["execution_id"], event["seq"]


def test_the_script_refuses_a_log_that_was_changed(tmp_path: Path) -> None:
    store = kept_home(tmp_path / "home")
    store.check()
    db = sqlite3.connect(store.log)
    db.execute("DROP TRIGGER event_is_never_changed")
    key = "SELECT key FROM event ORDER BY key LIMIT 1 OFFSET 20"
    body = "CAST(replace(CAST(body AS TEXT), 'o', '0') AS BLOB)"
    db.execute(f"UPDATE event SET body = {body} WHERE key = ({key})")
    db.commit()
    db.close()

    command = [sys.executable, str(READER), str(store.log)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert "of the events 21 to 21 one is damaged" in done.stderr
    assert len(done.stdout.splitlines()) == 20


def test_the_script_is_short_and_needs_no_noetl() -> None:
    text = READER.read_text()

    assert len(text.splitlines()) <= 75
    assert not re.findall("^(import|from) noetl", text, re.MULTILINE)
