"""Passes of a server that removes old executions: choice, archive, stored values."""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Collection, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from memory_blobs import MemoryBlobs
from memory_task_logs import MemoryTaskLogs
from servers import HEAD

from noetl.access.audit import Entry
from noetl.adapters.accounts.tables import SqlAudit
from noetl.adapters.archive.places import FolderPlace
from noetl.adapters.blobs.files import FileBlobs
from noetl.adapters.catalogs.files import describe
from noetl.adapters.catalogs.sqlite import SqliteCatalogRows
from noetl.adapters.sql_database import SqliteFile
from noetl.adapters.stores.sqlite import SqliteStore
from noetl.adapters.tools import BUILTIN
from noetl.commands.clean import collect
from noetl.dsl.load import load
from noetl.engine.retention import removable_at
from noetl.engine.times import rfc3339
from noetl.errors import StoreError
from noetl.local.home import Home
from noetl.ports import Registered, Removal
from noetl.ports.retention import Damaged
from noetl.service.errors import RequestRefused
from noetl.service.retention import choice
from noetl.service.retention.archive import ParquetArchive
from noetl.service.retention.archived import ArchiveReader
from noetl.service.retention.sweeper import EVERY_S, Sweeper
from noetl.service.retention.values import GRACE_S, SKEW_S, UnnamedValues

DAY = 86_400.0
NOW = 1_800_000_000.0


class Watch:
    def __init__(self) -> None:
        self.time, self.slept = NOW, 0.0

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.slept += seconds


class Copies:
    """An archive in memory that can fail before or after it has the copy."""

    def __init__(self) -> None:
        self.kept: dict[str, list[str]] = {}
        self.discarded: list[str] = []
        self.fails = ""
        self.damaged: set[str] = set()

    async def keep(self, removal: Removal) -> None:
        for name in removal.execution_ids:
            if name in self.damaged:
                raise Damaged(name, StoreError("event 7 is missing", "store.corrupt"))
        if self.fails == "before":
            raise StoreError("the archive is away", "store.unreachable")
        self.kept[removal.name] = list(removal.execution_ids)
        if self.fails == "after":
            raise KeyboardInterrupt  # as if killed

    async def discard(self, removal: Removal) -> None:
        self.discarded.append(removal.name)
        self.kept.pop(removal.name, None)


class CountedLogs(MemoryTaskLogs):
    def __init__(self) -> None:
        super().__init__()
        self.removed: list[str] = []

    async def remove(self, execution_ids: Collection[str]) -> None:
        self.removed += execution_ids


class World:
    def __init__(self, folder: Path, facts: Any) -> None:
        self.store = SqliteStore.open(folder / "log.db")
        self.catalog = SqliteCatalogRows(folder / "catalog.db")
        self.facts, self.watch, self.copies = facts, Watch(), Copies()
        self.blobs, self.task_logs = MemoryBlobs(), CountedLogs()

    async def end(
        self, name: str, days: float, own: str | None = None, **more: Any
    ) -> None:
        """Store an execution that took an hour and ended so many days ago."""
        ended = NOW - days * DAY
        payload = more.pop("payload", {})
        made = self.facts.transition(name, status="completed")
        events = [
            msgspec.structs.replace(each, payload={**each.payload, **payload})
            for each in made.log.events
        ]
        log = msgspec.structs.replace(made.log, events=events)
        about = {"name": "orders", "sha256": "0" * 64}
        summary = msgspec.structs.replace(
            made.summary,
            started_at=rfc3339(ended - 3600),
            finished_at=rfc3339(ended),
            playbook=about if own is None else {**about, "retention": own},
            **more,
        )
        await self.store.commit(
            [msgspec.structs.replace(made, summary=summary, log=log)]
        )

    async def begin(self, name: str, days: float, **more: Any) -> None:
        made = self.facts.transition(name)
        at = rfc3339(NOW - days * DAY)
        summary = msgspec.structs.replace(made.summary, started_at=at, **more)
        await self.store.commit([msgspec.structs.replace(made, summary=summary)])

    def sweeper(self, owner: str = "me", **more: Any) -> Sweeper:
        return Sweeper(
            self.store.retention,
            self.task_logs,
            self.watch,
            owner,
            archive=self.copies,
            **more,
        )

    def values(self) -> UnnamedValues:
        async def logs() -> AsyncIterator[Any]:
            yield self.store

        return UnnamedValues(self.blobs, logs, self.catalog)

    async def names(self) -> set[str]:
        return {each.execution_id for each in await self.store.find()}


@pytest.fixture
def world(tmp_path: Path, facts: Any, run: Any) -> Iterator[World]:
    found = World(tmp_path, facts)
    yield found
    run(found.store.close())
    run(found.catalog.close())


END = "2026-11-15T08:00:00.000000Z"


@pytest.mark.parametrize(
    ("own", "at_least", "kept"),
    [
        pytest.param(None, False, 100.0, id="the default"),
        pytest.param("60s", False, 60.0, id="a shorter one of the playbook"),
        pytest.param("1h", False, 3600.0, id="a longer one of the playbook"),
        pytest.param("60s", True, 100.0, id="a shorter one does not count"),
        pytest.param("1h", True, 3600.0, id="a longer one counts"),
        pytest.param("soon", False, 100.0, id="one that is not understood"),
    ],
)
def test_an_execution_is_kept_for_the_time_after_its_end(own, at_least, kept):
    ended = removable_at(END, None, 0.0)

    assert removable_at(END, own, 100.0, at_least=at_least) == ended + kept
    assert removable_at(None, own, 100.0) == float("inf")


@pytest.mark.parametrize(
    ("spec", "recorded"),
    [("{retention: 7d}", "7d"), ("{retention: 3600}", "3600"), ("{}", None)],
)
def test_an_execution_records_how_long_its_playbook_keeps_it(spec, recorded):
    text = f"""{HEAD}metadata: {{name: a, path: a}}
executor: {{spec: {spec}}}
workflow:
  - {{step: start, tool: {{kind: noop}}}}
"""
    about = describe(load(text.encode(), BUILTIN), "0" * 64, None)

    assert about.get("retention") == recorded


async def test_what_is_old_goes_with_its_family_and_nothing_else(world):
    await world.end("old", 40)
    await world.begin("runs", 40)
    await world.end("child-of-runs", 35, parent_id="runs")
    await world.end("parent", 31)
    await world.end("late-child", 29, parent_id="parent")
    await world.end("long-kept", 50, own="365d")
    await world.end("young", 5)
    await world.end("brief", 5, own="1d")

    done = await world.sweeper().sweep(30 * DAY)

    left = {"runs", "child-of-runs", "parent", "late-child", "long-kept", "young"}
    assert await world.names() == left
    assert (done.executions, done.events) == (2, 2)
    assert {name for names in world.copies.kept.values() for name in names} == {
        *("old", "brief"),
    }


async def test_batches_are_bounded_and_families_are_not_divided(world, monkeypatch):
    monkeypatch.setattr(choice, "BATCH", 3)
    for name in ("a", "b", "c", "d"):
        await world.end(name, 40)
        await world.end(f"{name}-child", 40, parent_id=name)

    await world.sweeper().sweep(30 * DAY)

    assert sorted(world.copies.kept.values()) == [
        [f"{name}-child", name] for name in ("a", "b", "c", "d")
    ]


async def test_children_of_a_large_family_go_before_their_root(world, monkeypatch):
    monkeypatch.setattr("noetl.adapters.stores.sqlite.retention.MAX_MEMBERS", 2)
    await world.end("a", 40)
    for child in ("b", "c", "d", "e", "f"):
        await world.end(child, 40, parent_id="a")
    await world.end("z", 40)
    await world.end("y", 40)
    for child in ("u", "v", "w"):
        await world.end(child, 40 if child != "u" else 3, parent_id="y")

    planned = await world.sweeper().clean(30 * DAY, after=0, dry_run=True)
    done = await world.sweeper().sweep(30 * DAY)

    assert planned.executions == done.executions == 7
    assert await world.names() == {"u", "v", "w", "y"}
    assert [*world.copies.kept.values()] == [["f", "e"], ["d", "c"], ["b", "a", "z"]]


async def test_a_wrong_clock_of_one_execution_does_not_stop_a_pass(world, monkeypatch):
    monkeypatch.setattr(choice, "YOUNG", 3)
    await world.end("from-the-future", -400)
    await world.end("old", 40)
    for name in ("a", "b", "c"):
        await world.end(name, 1)
    await world.end("behind-many-young-ones", 40)

    await world.sweeper().sweep(30 * DAY)

    assert await world.names() == {
        *("from-the-future", "a", "b", "c", "behind-many-young-ones"),
    }


@pytest.mark.parametrize("fails", ["before", "after"])
async def test_a_pass_that_is_killed_is_continued_with_the_same_copy(world, fails):
    for name in ("a", "b"):
        await world.end(name, 40)
    world.copies.fails = fails
    with pytest.raises((StoreError, KeyboardInterrupt)):
        await world.sweeper("one").sweep(30 * DAY)
    assert await world.names() == {"a", "b"}
    await world.end("c", 35)
    world.copies.fails = ""
    refused = await world.sweeper("two").sweep(30 * DAY)
    world.watch.time += 200

    done = await world.sweeper("two").sweep(30 * DAY)

    assert refused.executions == 0
    assert done.executions == 3
    assert await world.names() == set()
    assert sorted(world.copies.kept.values()) == [["a", "b"], ["c"]]
    assert sorted(world.task_logs.removed) == ["a", "b", "c"]


async def test_a_family_with_a_damaged_log_stays_and_others_go(world, caplog):
    for name in ("a", "b", "c"):
        await world.end(name, 40)
        await world.end(f"{name}-child", 40, parent_id=name)
    world.copies.damaged = {"b-child"}

    sweeper = world.sweeper()
    done = await sweeper.sweep(30 * DAY)

    assert done.executions == 4
    assert await world.names() == {"b", "b-child"}
    assert sweeper.failures == 1
    assert "stays: event 7 is missing" in caplog.text
    world.copies.damaged.clear()
    assert (await world.sweeper().sweep(30 * DAY)).executions == 2


async def test_a_log_that_was_changed_is_not_archived_and_not_removed(world, tmp_path):
    await world.end("changed", 40)
    await world.end("sound", 40)
    with sqlite3.connect(tmp_path / "log.db") as db:
        db.execute("DROP TRIGGER batch_is_never_changed")
        db.execute("UPDATE batch SET hash = zeroblob(16) WHERE key >> 32 = 1")
    db.close()
    place = FolderPlace("file://archive", tmp_path / "archive")
    world.copies = ParquetArchive(
        place,
        world.store,
        world.store.retention,
        world.task_logs,
        world.blobs,
        world.watch,
        tmp_path,
    )

    sweeper = world.sweeper()
    await sweeper.sweep(30 * DAY)

    assert await world.names() == {"changed"}
    assert sweeper.failures == 1
    reader = ArchiveReader(place, str(tmp_path))
    assert [each.execution.execution_id async for each in reader.each()] == ["sound"]
    assert (await reader.verify()).faults == []


async def test_a_copy_is_discarded_if_a_fork_keeps_its_execution(world):
    await world.end("a", 40)
    keep = world.copies.keep

    async def fork_meanwhile(removal: Removal) -> None:
        await keep(removal)
        origin = {"execution_id": "a", "seq": 1}
        await world.begin("fork", 0, forked_from=origin)

    world.copies.keep = fork_meanwhile
    with pytest.raises(StoreError, match="fork"):
        await world.sweeper().sweep(30 * DAY)

    assert world.copies.discarded == ["a"]
    assert await world.names() == {"a", "fork"}
    assert world.task_logs.removed == []
    world.copies.keep = keep
    assert (await world.sweeper().sweep(30 * DAY)).executions == 0


async def test_a_request_removes_and_counts_and_is_refused_meanwhile(world):
    for name in ("a", "b"):
        await world.end(name, 40)
    await world.end("long-kept", 40, own="365d")
    await world.end("brief", 5, own="1d")

    planned = await world.sweeper().clean(30 * DAY, after=0, dry_run=True)
    await world.store.retention.take_turn("other", now=NOW, ttl=10)
    with pytest.raises(RequestRefused) as refusal:
        await world.sweeper().clean(30 * DAY, after=0, dry_run=False)
    world.watch.time += 11
    done = await world.sweeper().clean(30 * DAY, after=0, dry_run=False)

    assert refusal.value.kind == "retention.busy"
    assert planned == done
    assert (done.executions, done.after) == (2, None)
    assert await world.names() == {"long-kept", "brief"}


async def test_unnamed_values_are_removed_after_the_answer(world):
    await world.end("a", 40)
    begun, swept = asyncio.Event(), asyncio.Event()

    async def values(before: float, now: float) -> int:
        begun.set()
        await swept.wait()
        return 3

    sweeper = world.sweeper(values=values)
    done = await sweeper.clean(30 * DAY, after=0, dry_run=False)
    await begun.wait()
    with pytest.raises(RequestRefused):
        await sweeper.clean(30 * DAY, after=0, dry_run=False)
    await sweeper.close()
    again = world.sweeper(values=values)
    await world.end("b", 40)
    swept.set()
    await again.sweep(30 * DAY)

    assert done.executions == 1
    assert (sweeper.values_removed, again.values_removed) == (0, 3)


async def test_a_request_is_answered_soon_and_continued(world, monkeypatch):
    monkeypatch.setattr("noetl.service.retention.sweeper.BUDGET_S", 0.0)
    monkeypatch.setattr(choice, "BATCH", 1)
    for name in ("a", "b", "c"):
        await world.end(name, 40)
    for dry_run in (True, False):
        after: int | None = 0
        steps = []
        while after is not None:
            done = await world.sweeper().clean(DAY, after=after, dry_run=dry_run)
            after = done.after
            steps.append(done.executions)
        assert steps == [1, 1, 1, 0]


async def test_a_server_goes_on_after_a_pass_that_failed(world, caplog):
    await world.end("old", 40)
    passes = []

    async def fix_and_end(seconds: float) -> None:
        passes.append(seconds)
        world.copies.fails = ""
        if await world.names() == set():
            raise asyncio.CancelledError

    world.copies.fails = "before"
    world.watch.sleep = fix_and_end
    sweeper = world.sweeper(age=30 * DAY)

    with pytest.raises(asyncio.CancelledError):
        await sweeper.serve()

    assert EVERY_S in passes
    assert (sweeper.failures, sweeper.removed) == (1, 1)
    assert "old executions were not removed: the archive is away" in caplog.text
    caplog.clear()
    await world.sweeper().serve()  # no time is set: there is nothing to do


async def test_values_go_when_no_log_names_them(world):
    """Only logs of executions that began before a value was stored are read."""
    old = await world.blobs.put(b"of an execution that is removed")
    named = await world.blobs.put(b"of an execution that stays")
    registered = await world.blobs.put(b"a playbook")
    await world.catalog.add(
        Registered(
            playbook_id="p",
            path="p",
            version="1",
            name="p",
            sha256="0" * 64,
            source=registered,
            registered_at=END,
        )
    )
    at = world.blobs._blobs[old][1]
    before = at + GRACE_S
    await world.end("stays", (NOW - at) / DAY, payload={"playbook": {"source": named}})

    removed = await world.values()(at + 1, before + SKEW_S + 60)

    assert removed == 1
    assert {blob.key async for blob in world.blobs.each()} == {named, registered}


async def test_old_entries_of_the_audit_go_and_others_stay(
    world, tmp_path, monkeypatch
):
    monkeypatch.setattr("noetl.service.retention.sweeper.ENTRIES", 2)
    file = SqliteFile.open(tmp_path / "accounts.db")
    audit = SqlAudit(file)
    for days in (50, 45, 42, 41, 39):
        at = NOW - days * DAY
        await audit.note(Entry(audit_id=str(days), at=at, action="x"))

    removed = await world.sweeper(audit=audit, audit_age=40 * DAY).sweep_audit()
    kept = await world.sweeper(audit=audit).sweep_audit()
    left = await audit.entries(limit=10)
    await file.close()

    assert (removed, kept) == (4, 0)
    assert [each.audit_id for each in left] == ["39"]


async def test_the_command_spares_texts_of_registered_playbooks(tmp_path):
    home = Home(tmp_path)
    blobs = FileBlobs(home.blobs)
    registered, stray = await blobs.put(b"a playbook"), await blobs.put(b"a stray")
    catalog = SqliteCatalogRows(home.catalog)
    await catalog.add(
        Registered(
            playbook_id="p",
            path="p",
            version="1",
            name="p",
            sha256="0" * 64,
            source=registered,
            registered_at=END,
        )
    )
    await catalog.close()

    removal = await collect(home, blobs, time.time() + 2 * DAY, None, dry_run=False)

    assert [each.key for each in removal.blobs] == [stray]
    assert [each.key async for each in blobs.each()] == [registered]
