"""Maintenance of logs: walk through all of them, remove finished executions."""

from __future__ import annotations

import asyncio
import sqlite3
from pathlib import Path
from typing import Any

import msgspec
import pytest

from noetl.adapters.stores.sqlite import SqliteStore
from noetl.adapters.stores.sqlite.retention import compact
from noetl.errors import StoreError


def over(facts: Any, name: str) -> Any:
    transition = facts.transition(
        name, count=3, status="completed", commands=[f"{name}-1"], snapshot=b"{}"
    )
    summary = msgspec.structs.replace(
        transition.summary, finished_at="2026-11-15T08:00:01.000000Z"
    )
    return msgspec.structs.replace(transition, summary=summary)


@pytest.fixture
def store(tmp_path: Path) -> Any:
    opened = SqliteStore.open(tmp_path / "log.db")
    yield opened
    asyncio.run(opened.close())


async def test_heads_list_all_executions_in_the_order_of_their_beginning(store, facts):
    for name in ("b", "a", "c"):
        await store.commit([over(facts, name)])
    await store.commit([facts.transition("d"), facts.transition("d", 1)])

    first = await store.heads(limit=3)
    rest = await store.heads(after=first[-1].number)

    found = [(each.summary.execution_id, each.last_seq) for each in [*first, *rest]]
    assert found == [("b", 3), ("a", 3), ("c", 3), ("d", 2)]
    assert await store.heads(after=rest[-1].number) == []


async def test_what_is_removed_is_gone_and_the_rest_is_whole(store, facts, tmp_path):
    for name in ("a", "b", "c"):
        await store.commit([over(facts, name)])

    await store.remove(["a", "c"])

    assert [each.execution_id for each in await store.find()] == ["b"]
    assert await store.read("a") == []
    assert await store.snapshot("c") is None
    assert len(await store.read("b")) == 3
    assert await store.verify("b") is None
    await store.commit([over(facts, "d")])
    assert await store.verify("d") is None


@pytest.mark.spec("S-72")
async def test_labels_are_removed_with_their_execution(store, facts):
    for name in ("a", "b"):
        ended = over(facts, name)
        summary = msgspec.structs.replace(ended.summary, labels={"team": name})
        await store.commit([msgspec.structs.replace(ended, summary=summary)])

    await store.remove(["b"])
    await store.commit([over(facts, "c")])  # the row of b may be used again

    assert await store.find(labels={"team": "b"}) == []
    assert len(await store.find(labels={"team": "a"})) == 1


async def test_what_is_not_over_is_not_removed_nor_what_goes_with_it(store, facts):
    await store.commit([over(facts, "a")])
    await store.commit([facts.transition("b", commands=["b-1"])])

    with pytest.raises(StoreError, match="b is not over"):
        await store.remove(["a", "b"])
    with pytest.raises(StoreError, match="there is no execution x"):
        await store.remove(["a", "x"])

    assert len(await store.find()) == 2


async def test_afterwards_the_log_is_as_well_guarded_as_before(store, facts, tmp_path):
    for name in ("a", "b"):
        await store.commit([over(facts, name)])
    await store.remove(["a"])
    await store.close()

    db = sqlite3.connect(tmp_path / "log.db")
    with pytest.raises(sqlite3.IntegrityError, match="append-only"):
        db.execute("DELETE FROM batch")
    assert db.execute("SELECT command_id FROM command").fetchall() == [("b-1",)]
    db.close()


async def test_free_pages_are_given_back_unless_the_file_is_in_use(
    store, facts, tmp_path
):
    path = tmp_path / "log.db"
    for name in [f"e{number}" for number in range(40)]:
        transition = over(facts, name)
        log = msgspec.structs.replace(transition.log, snapshot=bytes(20_000))
        await store.commit([msgspec.structs.replace(transition, log=log)])
    await store.commit([over(facts, "stays")])
    await store.remove([f"e{number}" for number in range(40)])
    with pytest.raises(StoreError) as refusal:
        compact(path)
    await store.close()
    before = path.stat().st_size

    given = compact(path)

    assert refusal.value.kind == "store.locked"
    assert given > 500_000
    assert path.stat().st_size <= before - given
    assert compact(path) == 0
    again = SqliteStore.open(path)
    assert await again.verify("stays") is None
    await again.close()
