"""What every store of triggers promises, on SQLite and on the real PostgreSQL."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from pathlib import Path
from typing import TypeAlias

import msgspec
import pytest

from noetl.access.initiator import Initiator
from noetl.adapters.postgres import Postgres
from noetl.adapters.sql_database import (
    APPLICATION,
    TRIGGERS,
    PostgresDatabase,
    SqliteFile,
)
from noetl.adapters.sql_files import read_migrations
from noetl.adapters.triggers import SqlTriggers
from noetl.errors import StoreError
from noetl.ports import Backfill, Trigger, Triggers
from noetl.triggers.backfill import Flight, Progress
from noetl.triggers.definition import Definition, Finished, Schedule, Webhook
from noetl.triggers.slots import Due

Opening: TypeAlias = Callable[[], AbstractAsyncContextManager[Triggers]]


@pytest.fixture(params=["sqlite", "postgres"])
def opening(request: pytest.FixtureRequest, tmp_path: Path) -> Opening:
    """Opens the same store as often as a test wants."""
    if request.param == "sqlite":
        return lambda: on_sqlite(tmp_path / "triggers.db")
    address = request.getfixturevalue("postgres")
    return lambda: on_postgres(address)


@asynccontextmanager
async def on_sqlite(path: Path) -> AsyncIterator[Triggers]:
    file = SqliteFile.open(path, TRIGGERS)
    try:
        yield SqlTriggers(file)
    finally:
        await file.close()


@asynccontextmanager
async def on_postgres(address: str) -> AsyncIterator[Triggers]:
    database = PostgresDatabase(Postgres(address, schema="public"), "triggers")
    try:
        yield SqlTriggers(database)
    finally:
        await database.close()


def schedule(name: str, **more: object) -> Trigger:
    definition = Definition(
        name=name,
        playbook="sales/orders@2",
        workload={"day": "{{ slot.date }}", "city": "Zürich"},
        schedule=Schedule(cron="0 2 * * *", zone="Europe/Berlin"),
    )
    fields = {"created_at": 1.5, "created_by": "ann", "cursor": 1.5, "next_at": 100.0}
    return Trigger(definition=definition, **{**fields, **more})


def webhook(name: str) -> Trigger:
    definition = Definition(name=name, playbook="a/b", webhook=Webhook())
    return Trigger(
        definition=definition, created_at=1.0, created_by="ann", credential="0f"
    )


def listener(name: str) -> Trigger:
    definition = Definition(name=name, playbook="a/b", finished=Finished(path="c/*"))
    return Trigger(definition=definition, created_at=1.0, created_by="ann")


async def test_a_trigger_is_stored_unchanged(opening: Opening) -> None:
    one = schedule("nightly", paused=True, last_slot=50.0, last_execution="x")
    async with opening() as triggers:
        assert await triggers.add(one)
    async with opening() as triggers:
        assert await triggers.get("nightly") == one
        assert await triggers.get("daily") is None


async def test_the_owner_is_stored_and_can_change(opening: Opening) -> None:
    ann, bob = Initiator("ann", "1", ("viewer",)), Initiator("bob", "2")
    async with opening() as triggers:
        await triggers.add(schedule("nightly", owner=ann))
        [before] = await triggers.list_all()
        changed = msgspec.structs.replace(before, owner=bob)
        assert await triggers.replace(changed, before.revision)
        [after] = await triggers.list_all()

        assert (before.owner, after.owner) == (ann, bob)


async def test_a_trigger_of_an_older_file_has_its_maker_for_an_owner(
    tmp_path: Path,
) -> None:
    """A file as it was before triggers had owners opens, and nothing in it is lost."""
    path, (first, *_) = tmp_path / "triggers.db", read_migrations(TRIGGERS[0])
    with closing(sqlite3.connect(path)) as older:
        older.executescript(first[1])
        definition = msgspec.json.encode(schedule("nightly").definition).decode()
        older.execute(
            "INSERT INTO triggers (name, definition, created_at, created_by, kind)"
            " VALUES ('nightly', ?, 1.5, 'ann', 'schedule')",
            (definition,),
        )
        older.execute(f"PRAGMA application_id = {APPLICATION}")
        older.execute("PRAGMA user_version = 1")
        older.commit()

    async with on_sqlite(path) as triggers:
        found = await triggers.get("nightly")

    assert found is not None
    assert (found.owner, found.initiator) == (None, Initiator("ann"))


async def test_a_name_is_given_once(opening: Opening) -> None:
    async with opening() as one, opening() as two:
        added = await asyncio.gather(one.add(schedule("a")), two.add(schedule("a")))

        assert sorted(added) == [False, True]
        assert [each.name for each in await one.list_all()] == ["a"]


async def test_they_are_listed_by_name(opening: Opening) -> None:
    async with opening() as triggers:
        for each in (webhook("c"), schedule("a"), listener("b")):
            await triggers.add(each)

        assert [each.name for each in await triggers.list_all()] == ["a", "b", "c"]
        assert [each.name for each in await triggers.on_finished()] == ["b"]


async def test_a_paused_trigger_is_not_notified(opening: Opening) -> None:
    async with opening() as triggers:
        await triggers.add(listener("b"))
        paused = msgspec.structs.replace(listener("b"), paused=True)
        assert await triggers.replace(paused, 1)

        assert list(await triggers.on_finished()) == []


async def test_what_is_due_is_found(opening: Opening) -> None:
    async with opening() as triggers:
        await triggers.add(schedule("soon", next_at=10.0))
        await triggers.add(schedule("late", next_at=30.0))
        await triggers.add(schedule("never", next_at=None))
        await triggers.add(schedule("paused", next_at=5.0, paused=True))
        await triggers.add(schedule("begun", next_at=99.0, pending=(9.0,), paused=True))
        await triggers.add(webhook("hook"))

        found = {each.name for each in await triggers.due(20.0)}

        assert found == {"soon", "begun"}


async def test_a_decision_is_made_once(opening: Opening) -> None:
    """Two servers decide at the same time: one decision holds, whole."""
    async with opening() as one, opening() as two:
        await one.add(schedule("a"))
        here, there = Due((60.0,), 60.0, 160.0), Due((60.0, 70.0), 70.0, 170.0)

        made = await asyncio.gather(one.plan("a", 1, here), two.plan("a", 1, there))

        assert sorted(made) == [False, True]
        kept = await one.get("a")
        assert kept is not None
        winner = here if made[0] else there
        assert (kept.pending, kept.cursor, kept.next_at) == (
            winner.slots,
            winner.cursor,
            winner.next_at,
        )
        assert not await one.plan("a", kept.revision, here), "some are not started yet"


async def test_what_was_pending_is_settled_once(opening: Opening) -> None:
    async with opening() as triggers:
        await triggers.add(schedule("a"))
        await triggers.plan("a", 1, Due((60.0,), 60.0, 160.0))

        assert await triggers.settle("a", 2, 60.0, "x-1")
        assert not await triggers.settle("a", 2, 60.0, "x-2")
        kept = await triggers.get("a")
        assert kept is not None
        assert (kept.pending, kept.last_slot, kept.last_execution) == ((), 60.0, "x-1")


async def test_a_change_holds_for_what_it_was_made_of(opening: Opening) -> None:
    async with opening() as triggers:
        await triggers.add(schedule("a"))
        changed = schedule("a", cursor=7.0, next_at=8.0, paused=True)

        assert not await triggers.replace(changed, 2)
        assert await triggers.replace(changed, 1)
        kept = await triggers.get("a")
        assert kept == msgspec.structs.replace(changed, revision=2)


def backfill(backfill_id: str, trigger: str, created_at: float = 1.0) -> Backfill:
    return Backfill(
        backfill_id=backfill_id,
        trigger=trigger,
        since=10.0,
        until=20.0,
        at_once=2,
        total=5,
        progress=Progress(cursor=10.0),
        created_at=created_at,
        created_by="ann",
    )


async def test_a_backfill_moves_on_from_where_it_is(opening: Opening) -> None:
    async with opening() as one, opening() as two:
        await one.add(schedule("a"))
        assert await one.add_backfill(backfill("f", "a"))
        here = Progress(cursor=12.0, flights=(Flight(11.0),), started=1)
        there = Progress(cursor=14.0, present=2)

        moved = await asyncio.gather(
            one.move("f", 1, "running", here), two.move("f", 1, "running", there)
        )

        assert sorted(moved) == [False, True]
        kept = await two.get_backfill("f")
        assert kept is not None
        assert kept.progress == (here if moved[0] else there)
        assert kept.revision == 2


async def test_a_backfill_is_open_while_something_of_it_runs(opening: Opening) -> None:
    async with opening() as triggers:
        await triggers.add(schedule("a"))
        await triggers.add_backfill(backfill("f", "a"))
        runs = Progress(cursor=12.0, flights=(Flight(11.0, "x-1"),))

        assert [each.backfill_id for each in await triggers.open_backfills()] == ["f"]
        await triggers.move("f", 1, "stopped", runs)
        assert [each.state for each in await triggers.open_backfills()] == ["stopped"]
        await triggers.move("f", 2, "stopped", Progress(cursor=12.0))
        assert list(await triggers.open_backfills()) == []


async def test_backfills_go_with_their_trigger(opening: Opening) -> None:
    async with opening() as triggers:
        for name in ("a", "b"):
            await triggers.add(schedule(name))
        await triggers.add_backfill(backfill("f1", "a", 1.0))
        await triggers.add_backfill(backfill("f2", "b", 2.0))
        await triggers.add_backfill(backfill("f3", "a", 3.0))

        listed = [each.backfill_id for each in await triggers.list_backfills()]
        of_one = [each.backfill_id for each in await triggers.list_backfills("a")]
        assert (listed, of_one) == (["f3", "f2", "f1"], ["f3", "f1"])
        assert await triggers.remove("a")
        assert not await triggers.remove("a")
        assert [each.backfill_id for each in await triggers.list_backfills()] == ["f2"]
        assert not await triggers.add_backfill(backfill("f4", "a"))


async def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    async with on_sqlite(tmp_path / "triggers.db"):
        pass
    (tmp_path / "other.db").write_bytes(b"not a database, but a text" * 100)

    with pytest.raises(StoreError):
        SqliteFile.open(tmp_path / "other.db", TRIGGERS)
