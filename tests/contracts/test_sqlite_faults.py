"""SQLite when the disk fails: consistent, and never reported as success (I-06)."""

from __future__ import annotations

import asyncio
import errno
import os
import resource
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest

from noetl.adapters.stores.sqlite import SqliteStore
from noetl.errors import StoreError


class Faulty(sqlite3.Connection):
    """Fails at the n-th statement from when it is told to, before or after it."""

    left: int | None = None
    after = False
    code = sqlite3.SQLITE_FULL
    commits: list[int]

    def execute(self, sql: str, *values: Any) -> sqlite3.Cursor:
        if sql == "COMMIT":
            (level,) = super().execute("PRAGMA synchronous").fetchone()
            type(self).commits.append(level)
        return self._maybe(super().execute, sql, *values)

    def executemany(self, sql: str, *values: Any) -> sqlite3.Cursor:
        return self._maybe(super().executemany, sql, *values)

    def _maybe(self, call: Any, *values: Any) -> sqlite3.Cursor:
        cls = type(self)
        if cls.left is None or values[0] == "ROLLBACK":
            return call(*values)
        cls.left -= 1
        if cls.left:
            return call(*values)
        if cls.after:
            call(*values)
        error = sqlite3.OperationalError("injected")
        error.sqlite_errorcode = cls.code
        raise error


@pytest.fixture
def faulty(monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Faulty]]:
    connect = sqlite3.connect
    Faulty.left, Faulty.after, Faulty.commits = None, False, []
    Faulty.code = sqlite3.SQLITE_FULL

    def connect_faulty(*values: Any, **options: Any) -> sqlite3.Connection:
        return connect(*values, **options, factory=Faulty)

    monkeypatch.setattr(sqlite3, "connect", connect_faulty)
    yield Faulty
    Faulty.left = None


async def look(store: SqliteStore) -> dict[str, Any]:
    """All that the transition changes, without changing it."""

    def rows(db: sqlite3.Connection) -> list[Any]:
        commands = db.execute("SELECT command_id, state, epoch FROM command ORDER BY 1")
        timers = db.execute("SELECT timer_id FROM timer ORDER BY 1")
        return [commands.fetchall(), timers.fetchall()]

    return {
        "x": len(await store.read("x")),
        "y": len(await store.read("y")),
        "found": [s.status for s in await store.find()],
        "rows": await store._read(rows),
    }


async def prepare(store: SqliteStore, facts: Any) -> list[Any]:
    batch = facts.transition("x", commands=["x-1", "x-2"], timers={"a": 5.0})
    await store.commit([batch])
    [lease] = await store.claim("w", pool="default", slots=1, now=1.0, ttl=30.0)
    return [
        facts.transition(
            "x",
            1,
            count=2,
            status="waiting",
            leases=[lease],
            commands=["x-3"],
            done=["x-1"],
            release=["x-2"],
            timers={"b": 9.0},
            disarm=["a"],
        ),
        facts.transition("y", commands=["y-1"]),
    ]


@pytest.mark.parametrize("threaded", [False, True])
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize(
    ("code", "kind"),
    [(sqlite3.SQLITE_FULL, "store.full"), (sqlite3.SQLITE_IOERR, "store.io")],
)
def test_an_error_at_any_statement_leaves_all_or_nothing(
    tmp_path: Path, facts, faulty, code, kind, after, threaded
):
    async def fail_at(number: int) -> bool:
        path = tmp_path / f"{number}.db"
        store = SqliteStore.open(path, threaded=threaded)
        group = await prepare(store, facts)
        before = await look(store)
        faulty.code, faulty.after, faulty.left = code, after, number
        error = None
        try:
            await store.commit(group)
        except StoreError as caught:
            error = caught
        reached, faulty.left = faulty.left <= 0, None
        await store.close()
        store = SqliteStore.open(path, threaded=threaded)
        now = await look(store)
        if error is None:
            assert not reached
            assert now["x"] == 3
        else:
            assert error.kind == kind
            # Only a COMMIT that was done and then failed may have stored it.
            assert now["x"] in ((1, 3) if after else (1,))
        if now["x"] == 1:
            before["rows"][0][0] = ("x-1", "ready", 1)  # the lease of another boot
            assert now == before
        assert await store.verify("x") is None
        await store.commit([facts.transition("x", now["x"])])
        await store.close()
        return reached

    number = 1
    while asyncio.run(fail_at(number)):
        number += 1
    assert number > 12


def test_a_full_disk_is_not_for_ever(tmp_path, facts, faulty):
    async def scenario() -> None:
        store = SqliteStore.open(tmp_path / "log.db")
        faulty.left = 4
        with pytest.raises(StoreError) as caught:
            await store.commit([facts.transition("x")])
        assert caught.value.kind == "store.full"
        faulty.left = None
        await store.commit([facts.transition("x")])
        assert len(await store.read("x")) == 1
        await store.close()

    asyncio.run(scenario())


def test_a_failed_group_is_tried_singly(tmp_path, facts, faulty):
    """One transition is too large for the disk; the others of its group are not."""

    async def scenario() -> None:
        store = SqliteStore.open(tmp_path / "log.db")
        await store._write(lambda db: None)
        await store._write(lambda db: db.execute("PRAGMA max_page_count = 60"))
        large = facts.transition("large")
        large.log.events[0].payload["text"] = Random(1).randbytes(500_000).hex()
        commits = [store.commit([facts.transition(f"x{n}")]) for n in range(5)]
        commits.insert(2, store.commit([large]))
        answers = await asyncio.gather(*commits, return_exceptions=True)
        refused = answers.pop(2)
        assert refused.kind == "store.full"
        assert answers == [None] * 5
        assert len(await store.find()) == 5
        await store.close()

    asyncio.run(scenario())


def test_a_defect_in_one_job_is_not_the_others_fault(tmp_path, facts):
    async def scenario() -> None:
        store = SqliteStore.open(tmp_path / "log.db")
        broken = store._write(lambda db: db.execute("SELECT 1").fetchone()[7])
        answers = await asyncio.gather(
            store.commit([facts.transition("x")]), broken, return_exceptions=True
        )
        assert answers[0] is None
        assert isinstance(answers[1], IndexError)
        assert len(await store.read("x")) == 1
        await store.close()

    asyncio.run(scenario())


@pytest.mark.parametrize("threaded", [False, True])
def test_after_an_io_error_nothing_is_stored_until_it_is_opened_again(
    tmp_path, facts, threaded
):
    """A file that may not grow: the system refuses the write itself."""
    path = tmp_path / "log.db"

    async def scenario() -> None:
        store = SqliteStore.open(path, threaded=threaded)
        await store.commit([facts.transition("x")])
        size = path.with_name("log.db-wal").stat().st_size
        soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
        try:
            with pytest.raises(StoreError) as first:
                await store.commit([facts.transition("x", 1, count=50)])
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        with pytest.raises(StoreError) as second:
            await store.commit([facts.transition("x", 1)])
        assert first.value.kind == second.value.kind == "store.io"
        assert "open the store again" in str(second.value)
        await store.close()
        store = SqliteStore.open(path, threaded=threaded)
        assert len(await store.read("x")) == 1
        await store.commit([facts.transition("x", 1)])
        await store.close()

    asyncio.run(scenario())


def test_a_lock_file_that_cannot_be_emptied_is_released(tmp_path, monkeypatch):
    async def scenario() -> None:
        store = SqliteStore.open(tmp_path / "log.db")
        with monkeypatch.context() as broken:
            broken.setattr(os, "ftruncate", refuse)
            await store.close()
        await SqliteStore.open(tmp_path / "log.db").close()

    asyncio.run(scenario())


def refuse(*_: int) -> None:
    raise OSError(errno.ENOSPC, "injected")


def test_another_writer_by_hand_makes_the_store_busy(tmp_path, facts):
    async def scenario() -> None:
        store = SqliteStore.open(tmp_path / "log.db")
        await store._write(lambda db: None)
        store._queue._writer._db.execute("PRAGMA busy_timeout = 0")
        other = sqlite3.connect(tmp_path / "log.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreError) as caught:
            await store.commit([facts.transition("x")])
        assert caught.value.kind == "store.busy"
        other.close()
        await store.commit([facts.transition("x")])
        await store.close()

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("threaded", "levels"),
    [
        pytest.param(False, [2, 1, 2], id="owners in this process: the claim can wait"),
        pytest.param(True, [2, 2, 2], id="owners anywhere: a claim is durable"),
    ],
)
def test_every_commit_is_synced(tmp_path, facts, faulty, threaded, levels):
    async def scenario() -> None:
        store = SqliteStore.open(tmp_path / "log.db", threaded=threaded)
        faulty.commits.clear()
        await store.commit([facts.transition("x", commands=["x-1"])])
        await store.claim("w", pool="default", slots=1, now=1.0, ttl=30.0)
        await store.commit([facts.transition("x", 1)])
        await store.close()

    asyncio.run(scenario())
    assert faulty.commits == levels
