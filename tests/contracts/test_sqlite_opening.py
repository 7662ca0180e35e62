"""Opening a store: refused with one clear line, or safe (RELIABILITY 3.9, row 95)."""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest

from noetl.adapters.stores.sqlite import SqliteStore, connection
from noetl.adapters.stores.sqlite.schema import migrations, newest_version
from noetl.errors import StoreError
from noetl.ports import Summary

NEXT = newest_version() + 1
FAMILIES = 4
"""The version that knows which executions descend from one root."""
HOLDER = """
import sys
from noetl.adapters.stores.sqlite import SqliteStore
store = SqliteStore.open(sys.argv[1])
print("open", flush=True)
sys.stdin.read()
"""
OTHER_USER = """
import asyncio, os, sys
from noetl.adapters.stores.sqlite import SqliteStore
from noetl.errors import StoreError
# Python imports as it goes; afterwards it may not be able to.
asyncio.run(SqliteStore.open(sys.argv[1] + ".other").close())
os.seteuid(65534)
try:
    SqliteStore.open(sys.argv[1])
except StoreError as error:
    print(error.kind)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.db"


def make(path: Path, *statements: str) -> None:
    asyncio.run(SqliteStore.open(path).close())
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for statement in statements:
            db.execute(statement)


def refusal(path: Path, **options: bool) -> StoreError:
    with pytest.raises(StoreError) as caught:
        SqliteStore.open(path, **options)
    return caught.value


def test_a_store_that_is_open_is_refused_naming_the_process(path):
    store = SqliteStore.open(path)

    error = refusal(path)

    assert error.kind == "store.locked"
    assert f"process {os.getpid()}" in str(error)
    asyncio.run(store.close())
    asyncio.run(SqliteStore.open(path).close())


def test_a_store_of_another_process_is_refused_until_it_ends(path):
    call = [sys.executable, "-c", HOLDER, path]
    pipe = subprocess.PIPE
    with subprocess.Popen(call, stdin=pipe, stdout=pipe, text=True) as holder:
        assert holder.stdout.readline() == "open\n"
        error = refusal(path)
        holder.kill()

    assert error.kind == "store.locked"
    assert f"process {holder.pid}" in str(error)
    asyncio.run(SqliteStore.open(path).close())


def test_the_same_store_by_another_name_is_the_same_store(path):
    store = SqliteStore.open(path)
    link = path.with_name("link.db")
    link.symlink_to(path)

    assert refusal(link).kind == "store.locked"
    asyncio.run(store.close())


async def test_being_refused_does_not_harm_the_one_who_holds_it(path, facts):
    store = SqliteStore.open(path)
    await store.commit([facts.transition("x")])
    refusal(path)
    await store.commit([facts.transition("x", 1)])

    reader = SqliteStore.open(path, readonly=True)
    assert len(await reader.read("x")) == 2
    await reader.close()
    await store.close()


@pytest.mark.parametrize("threaded", [False, True])
async def test_others_may_read_while_one_writes(path, facts, threaded):
    store = SqliteStore.open(path)
    await store.commit([facts.transition("x")])
    reader = SqliteStore.open(path, readonly=True, threaded=threaded)
    assert len(await reader.read("x")) == 1
    await store.commit([facts.transition("x", 1, status="completed")])

    assert len(await reader.read("x")) == 2
    assert [summary.status for summary in await reader.find()] == ["completed"]
    assert await reader.verify("x") is None
    await store.close()
    assert len(await reader.read("x")) == 2
    await reader.close()


async def test_a_reader_cannot_write(path, facts):
    await SqliteStore.open(path).close()
    reader = SqliteStore.open(path, readonly=True)

    with pytest.raises(StoreError) as caught:
        await reader.commit([facts.transition("x")])

    assert caught.value.kind == "store.readonly"
    await reader.close()


def test_a_reader_makes_no_file(path):
    assert refusal(path, readonly=True).kind == "store.missing"
    assert list(path.parent.iterdir()) == []


def test_a_reader_refuses_an_empty_store_file(path):
    path.touch()

    assert refusal(path, readonly=True).kind == "store.missing"


@pytest.mark.parametrize("readonly", [False, True])
def test_a_newer_store_is_refused(path, readonly):
    make(path, "PRAGMA user_version = 999")

    error = refusal(path, readonly=readonly)

    assert error.kind == "store.version"
    assert "version 999" in str(error)


def test_a_half_made_store_is_refused(path):
    make(path, "PRAGMA user_version = 0")

    assert refusal(path).kind == "store.migration"


@pytest.fixture
def next_version(monkeypatch):
    """A version of NoETL that knows one more migration."""
    newer = [(NEXT, "CREATE TABLE more (x);\nCREATE TABLE most (x);")]

    def begin() -> None:
        name = "noetl.adapters.stores.sqlite.schema.migrations"
        monkeypatch.setattr(name, lambda: newer)

    return begin


def test_a_reader_brings_an_older_store_up_to_date(path, next_version):
    make(path)
    next_version()

    asyncio.run(SqliteStore.open(path, readonly=True).close())

    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (NEXT,)
    asyncio.run(SqliteStore.open(path).close())


def test_an_older_store_is_not_read_while_another_process_writes_it(path, next_version):
    writer = SqliteStore.open(path)
    next_version()

    error = refusal(path, readonly=True)

    assert error.kind == "store.version"
    assert "end the process that has it open" in str(error)
    asyncio.run(writer.close())
    asyncio.run(SqliteStore.open(path, readonly=True).close())


def test_work_of_a_store_from_before_families_is_claimed(path):
    """Its executions are roots, each of its own family."""
    summary = msgspec.json.encode(Summary("x", "running", {}, "")).decode()
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        for number, script in migrations():
            if number < FAMILIES:
                db.executescript(script)
        db.execute(f"PRAGMA user_version = {FAMILIES - 1}")
        row = (1, "x", "running", 1, b"", summary, None)
        db.execute("INSERT INTO execution VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        for name, state in (("x-1", "ready"), ("x-2", "leased"), ("x-3", None)):
            db.execute(
                "INSERT INTO command (command_id, execution, rank, pool, state, "
                "not_before, boot_id) VALUES (?, 1, 1, 'default', ?, 0, 'before')",
                (name, state),
            )

    async def claimed() -> list[str]:
        store = SqliteStore.open(path)
        try:
            leases = await store.claim("w", pool="default", slots=9, now=1.0, ttl=9.0)
            assert await store.count_family("x", limit=9) == 0
            return [lease.command_id for lease in leases]
        finally:
            await store.close()

    assert asyncio.run(claimed()) == ["x-1", "x-2"]


def test_a_migration_that_fails_leaves_the_store_as_it_was(path, monkeypatch):
    make(path)
    broken = [(NEXT, "CREATE TABLE more (x);\nCREATE TABLE event (x);")]
    with monkeypatch.context() as patch:
        patch.setattr("noetl.adapters.stores.sqlite.schema.migrations", lambda: broken)
        refusal(path)

    make(path)
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA user_version").fetchone() == (NEXT - 1,)
        assert not db.execute(
            "SELECT 1 FROM sqlite_master WHERE name = 'more'"
        ).fetchall()


@pytest.mark.parametrize("readonly", [False, True])
def test_a_foreign_database_is_left_alone(path, readonly):
    with closing(sqlite3.connect(path)) as db:
        db.execute("CREATE TABLE orders (x)")

    error = refusal(path, readonly=readonly)

    assert error.kind == "store.corrupt"
    assert "not a store of NoETL" in str(error)


@pytest.mark.parametrize("readonly", [False, True])
@pytest.mark.parametrize(
    "content", [b"x" * 5000, b"SQLite format 3\0" + b"\xff" * 9000]
)
def test_a_file_with_other_content_is_refused(path, content, readonly):
    path.write_bytes(content)

    assert refusal(path, readonly=readonly).kind == "store.corrupt"
    assert path.read_bytes() == content


async def test_a_damaged_page_is_reported_as_such(path, facts):
    store = SqliteStore.open(path)
    await store.commit([facts.transition("x", count=200)])
    await store.close()
    size = path.stat().st_size
    with path.open("r+b") as file:
        file.seek(4096)
        file.write(b"\xff" * (size - 4096))

    async def open_and_read() -> None:
        store = SqliteStore.open(path)
        try:
            await store.read("x")
        finally:
            await store.close()

    with pytest.raises(StoreError) as caught:
        await open_and_read()

    assert caught.value.kind == "store.corrupt"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
@pytest.mark.parametrize("protected", ["file", "folder"])
def test_a_file_that_cannot_be_written_is_refused(protected):
    # Not under tmp_path, where nobody else may go.
    with TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name)
        path = folder / "log.db"
        make(path)
        folder.chmod(0o777 if protected == "file" else 0o755)
        path.with_name("log.db.lock").chmod(0o666)
        path.chmod(0o444)

        call = [sys.executable, "-c", OTHER_USER, path]
        said = subprocess.run(call, capture_output=True, text=True, check=True)

    assert said.stdout == "store.readonly\n"


def test_a_folder_is_refused_as_a_store(tmp_path):
    assert refusal(tmp_path).kind == "store.io"


@pytest.mark.parametrize("readonly", [False, True])
def test_a_network_file_system_is_refused(path, monkeypatch, tmp_path, readonly):
    table = tmp_path / "mountinfo"
    table.write_text(f"36 35 0:1 / {tmp_path} rw - nfs4 server:/home rw\n")
    monkeypatch.setattr(connection, "_MOUNTS", table)

    error = refusal(path, readonly=readonly)

    assert error.kind == "store.network_fs"
    assert "nfs4" in str(error)


def test_a_store_belongs_to_its_user_alone(path):
    store = SqliteStore.open(path)
    modes = {each.name: each.stat().st_mode & 0o777 for each in path.parent.iterdir()}
    asyncio.run(store.close())

    assert set(modes.values()) == {0o600}
    assert "log.db-wal" in modes


def test_folders_are_made(tmp_path):
    path = tmp_path / "a" / "b" / "log ?#%.db"
    make(path)

    assert path.exists()


async def test_the_connections_are_strict(path):
    store = SqliteStore.open(path)
    settings = {
        "journal_mode": "wal",
        "synchronous": 2,
        "wal_autocheckpoint": 0,
        "foreign_keys": 1,
        "trusted_schema": 0,
        "cell_size_check": 1,
        "busy_timeout": 5000,
    }
    for name, value in settings.items():
        found = await store._write(
            lambda db, name=name: db.execute(f"PRAGMA {name}").fetchone()
        )
        assert found == (value,), name
    await store.close()


def test_what_a_killed_process_left_in_its_log_is_written_to_the_file(
    path, facts, tmp_path
):
    """After a failed sync the system may show a log that is not on the disk."""
    killed, again = tmp_path / "killed", tmp_path / "again"

    async def commit_some() -> None:
        store = SqliteStore.open(path)
        for after in range(5):
            await store.commit([facts.transition("x", after)])
        killed.mkdir()
        for name in ("log.db", "log.db-wal"):
            shutil.copy(path.with_name(name), killed)
        await store.close()

    asyncio.run(commit_some())
    assert (killed / "log.db-wal").stat().st_size > 0
    store = SqliteStore.open(killed / "log.db")
    again.mkdir()
    shutil.copy(killed / "log.db", again)  # the disk, without the log
    store.close_now()

    with closing(sqlite3.connect(again / "log.db")) as db:
        assert db.execute("SELECT last_seq FROM execution").fetchall() == [(5,)]
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)
