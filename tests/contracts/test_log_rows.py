"""Rows of the log: those of older versions, tallies, and what a reading touches."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Awaitable, Callable
from hashlib import sha256
from typing import Any

import pytest

from noetl.adapters.postgres import Postgres
from noetl.adapters.stores.batches import MAX_EVENTS
from noetl.adapters.stores.postgres import PostgresStore
from noetl.adapters.stores.postgres import store as postgres_store
from noetl.adapters.stores.postgres.queries import SQL
from noetl.adapters.stores.sqlite import SqliteStore
from noetl.adapters.stores.sqlite.schema import SQL as SQLITE
from noetl.engine.event_codec import pack
from noetl.ports import Snapshot

Writer = Callable[..., Awaitable[None]]


async def as_older_version(write: Writer, store: Any, facts: Any, count: int) -> None:
    """Store the execution ``x`` as the versions before batches did: a row an event."""
    previous, rows = b"", []
    for seq in range(1, count + 1):
        body = pack(facts.event("x", seq, n=seq - 1))
        previous = sha256(previous + body).digest()
        rows.append((seq, previous, body))
    begin = "INSERT INTO execution (execution_id, status, last_seq, last_hash, summary)"
    line = '{"execution_id":"x","status":"running","playbook":{},"started_at":""}'
    given = ("x", "running", count, previous, line)
    await write(f"{begin} VALUES (?, ?, ?, ?, ?)", [given])
    number = "(SELECT number FROM execution WHERE execution_id = 'x')"
    if isinstance(store, SqliteStore):
        columns, place = "key, hash, body", f"({number} << 32) + ?"
    else:
        columns, place = "execution, seq, hash, body", f"{number}, ?"
    await write(f"INSERT INTO event ({columns}) VALUES ({place}, ?, ?)", rows)


async def mixed(write: Writer, store: Any, facts: Any) -> None:
    """Four rows of an older version, then commits of 3, 1, 5 and 1 events."""
    await as_older_version(write, store, facts, 4)
    after = 4
    for count in (3, 1, 5, 1):
        await store.commit([facts.transition("x", after, count=count)])
        after += count


@pytest.mark.spec("EVT-01", "S-44")
@pytest.mark.parametrize("limit", [None, 1, 2, 5, 14, 99])
async def test_a_log_with_rows_of_an_older_version_is_read_by_range(
    store, facts, write, limit
):
    await mixed(write, store, facts)
    for after in range(15):
        events = await store.read("x", after=after, limit=limit)
        last = 14 if limit is None else min(14, after + limit)
        assert [each.seq for each in events] == list(range(after + 1, last + 1))

    whole = await store.read("x")
    assert [each.payload["n"] for each in whole[:4]] == [0, 1, 2, 3]
    pages = [page async for page in store.pages("x", size=3)]
    assert [each for page in pages for each in page] == whole


@pytest.mark.spec("S-46")
async def test_a_log_with_rows_of_an_older_version_is_verified(store, facts, write):
    await mixed(write, store, facts)

    assert await store.verify("x") is None


@pytest.mark.spec("S-46")
@pytest.mark.parametrize(
    ("table", "at", "seq", "named"),
    [
        ("event", 3, 3, "event 3 is"),
        ("batch", 7, 5, "one of the events 5 to 7 is"),
        ("batch", 13, 9, "one of the events 9 to 13 is"),
        ("batch", 14, 14, "event 14 is"),
    ],
)
async def test_the_row_whose_byte_is_flipped_is_named_by_its_events(
    store, facts, write, table, at, seq, named
):
    await mixed(write, store, facts)
    if isinstance(store, SqliteStore):
        await write(f"DROP TRIGGER {table}_is_never_changed")
        place = f"key % (1 << 32) = {at}"
        flipped = "CAST(x'20' || substr(body, 2) AS BLOB)"
    else:
        await write(f"ALTER TABLE {table} DISABLE TRIGGER ALL")
        place = f"{'seq' if table == 'event' else 'last_seq'} = {at}"
        flipped = "set_byte(body, 5, get_byte(body, 5) # 32)"
    await write(f"UPDATE {table} SET body = {flipped} WHERE {place}")

    damage = await store.verify("x")

    assert damage is not None
    assert damage.seq == seq
    assert damage.kind == "log.hash_mismatch"
    assert damage.message == f"{named} not what was recorded"


@pytest.mark.spec("S-46")
async def test_a_long_log_is_verified_in_parts(store, facts, monkeypatch):
    monkeypatch.setattr(postgres_store, "_ROWS_PER_CHECK", 3)
    for after in range(8):
        await store.commit([facts.transition("x", after)])

    assert await store.verify("x") is None


async def test_a_commit_of_many_events_is_read_by_range(store, facts):
    count = 2 * MAX_EVENTS + 7
    await store.commit([facts.transition("x", count=count)])
    await store.commit([facts.transition("x", count, count=2)])

    for after in (0, MAX_EVENTS - 1, MAX_EVENTS, 2 * MAX_EVENTS + 5, count, count + 1):
        events = await store.read("x", after=after, limit=3)
        last = min(after + 3, count + 2)
        assert [each.seq for each in events] == list(range(after + 1, last + 1))
    assert await store.verify("x") is None


async def test_a_tally_is_found_at_or_before_a_position(store, facts):
    await store.commit([facts.transition("x", count=9), facts.transition("y")])
    for seq in (3, 6):
        await store.keep_tally("x", 1, Snapshot(seq, b"%d" % seq))

    assert await store.tally("x", 1) == Snapshot(6, b"6")
    assert await store.tally("x", 1, at=6) == Snapshot(6, b"6")
    assert await store.tally("x", 1, at=5) == Snapshot(3, b"3")
    assert await store.tally("x", 1, at=2) is None
    assert await store.tally("y", 1) is None
    assert await store.tally("nobody", 1) is None


async def test_a_tally_of_another_version_is_not_found(store, facts):
    await store.commit([facts.transition("x", count=9)])
    await store.keep_tally("x", 1, Snapshot(6, b"old"))

    assert await store.tally("x", 2) is None
    await store.keep_tally("x", 2, Snapshot(6, b"new"))
    assert await store.tally("x", 1) == Snapshot(6, b"old")
    assert await store.tally("x", 2) == Snapshot(6, b"new")


async def test_a_tally_is_replaced_by_a_newer_one_of_its_position(store, facts):
    await store.commit([facts.transition("x", count=9)])
    for body in (b"first", b"second"):
        await store.keep_tally("x", 1, Snapshot(6, body))

    assert await store.tally("x", 1) == Snapshot(6, b"second")


async def test_a_tally_of_what_is_not_there_is_not_kept(store, facts):
    await store.commit([facts.transition("x", count=2)])
    await store.keep_tally("x", 1, Snapshot(3, b"after the end"))
    await store.keep_tally("nobody", 1, Snapshot(1, b"of nothing"))
    await store.commit([facts.transition("x", 2, count=2)])

    assert await store.tally("x", 1) is None
    assert await store.tally("nobody", 1) is None


def test_a_range_of_a_file_is_read_in_order_of_its_keys(tmp_path):
    asyncio.run(SqliteStore.open(tmp_path / "log.db").close())
    db = sqlite3.connect(tmp_path / "log.db")
    rows = db.execute(f"EXPLAIN QUERY PLAN {SQLITE['rows']}", (0, 9)).fetchall()
    db.close()

    plan = [row[3] for row in rows]
    assert "SEARCH event USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)" in plan
    assert "SEARCH batch USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)" in plan
    assert not any("SCAN" in step or "TEMP B-TREE" in step for step in plan), plan


MANY = """
INSERT INTO execution (execution_id, status, last_seq, summary)
SELECT 'e' || n, 'running', 30, '{}' FROM generate_series(1, 3000) AS n;
SELECT setval(pg_get_serial_sequence('execution', 'number'), 250000);
INSERT INTO execution (execution_id, status, last_seq, summary)
SELECT 'f' || n, 'running', 30, '{}' FROM generate_series(1, 3000) AS n;
INSERT INTO batch (execution, last_seq, events, dictionary, hash, body)
SELECT number, 3 * s, 3, 1, '', '' FROM execution, generate_series(1, 10) AS s;
"""


def scans(plan: dict[str, Any]) -> list[dict[str, Any]]:
    found = [each for part in plan.get("Plans", ()) for each in scans(part)]
    return [*found, plan] if "Relation Name" in plan else found


async def test_a_range_touches_the_key_of_one_partition(postgres):
    database = Postgres(postgres)
    await PostgresStore.open(database)

    async def explain(connection: Any) -> Any:
        await connection.execute(MANY)
        settings = "FORMAT JSON, ANALYZE, TIMING OFF, COSTS OFF"
        types = "text, integer, integer, integer, bigint"
        await connection.execute(f"PREPARE rows ({types}) AS {SQL['rows']}")
        text = await connection.fetchval(
            f"EXPLAIN ({settings}) EXECUTE rows ('f7', 10, 14, {MAX_EVENTS}, 4)"
        )
        return json.loads(text)[0]["Plan"]

    plan = await database.run(explain)
    await database.close()

    done = [each for each in scans(plan) if each["Actual Loops"]]
    assert {each["Relation Name"] for each in done} == {
        "execution",
        "event_rest",
        "batch_200000",
    }
    assert {each["Node Type"] for each in done} == {"Index Scan"}
    [rows] = [each for each in done if each["Relation Name"] == "batch_200000"]
    assert rows["Actual Rows"] == 2
    assert "execution = x.number" in rows["Index Cond"]
    assert "last_seq > $2" in rows["Index Cond"]
