"""The searches for secrets in stored logs find one that is only in a compressed row.

Without that, a test that finds no secret would prove nothing.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest
from stored_log import UNFOLDED, contents, unfold

from noetl.adapters.postgres import Postgres
from noetl.adapters.stores.postgres import PostgresStore
from noetl.adapters.stores.sqlite import SqliteStore
from noetl.ports import Snapshot, Transition

SECRET = "correct-horse-battery-staple"


def leaking(facts: Any) -> Transition:
    """A transition with an event that has the secret."""
    transition: Transition = facts.transition("x", count=3)
    first, _, last = transition.log.events
    leak = facts.event("x", 2, token=SECRET)
    log = msgspec.structs.replace(transition.log, events=[first, leak, last])
    return msgspec.structs.replace(transition, log=log)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path


async def test_a_search_of_a_home_reads_the_compressed_rows(facts, home):
    store = SqliteStore.open(home / "log.db")
    await store.commit([leaking(facts)])
    await store.close()

    found = {name for name, text in contents(home) if SECRET.encode() in text}

    assert found == {f"events of {home / 'log.db'}"}, "in no file as it is"


async def test_a_search_of_a_home_reads_values_that_pages_divide(facts, home):
    store = SqliteStore.open(home / "log.db")
    await store.commit([facts.transition("x")])
    for offset in range(0, 8192, len(SECRET) // 2):
        body = bytes(offset) + SECRET.encode() + bytes(9000 - offset)
        await store.keep_tally("x", offset, Snapshot(1, body))
    await store.close()

    [name] = {name for name, _ in contents(home) if name.startswith("rows of ")}
    values = dict(contents(home))[name]
    raw = (home / "log.db").read_bytes()

    assert values.count(SECRET.encode()) > raw.count(SECRET.encode())


async def test_a_search_of_a_database_reads_the_compressed_rows(facts, postgres):
    database = Postgres(postgres)
    store = await PostgresStore.open(database)
    await store.commit([leaking(facts)])

    rows = await database.fetch(UNFOLDED.format(""))
    await database.close()

    assert not any(SECRET.encode() in bytes(body) for body, _ in rows)
    assert SECRET.encode() in unfold(rows)


async def test_a_search_fails_without_the_dictionary_of_a_row(facts, home):
    """It never passes over a row that it cannot read."""
    store = SqliteStore.open(home / "log.db")
    await store.commit([leaking(facts)])
    await store.close()
    with closing(sqlite3.connect(home / "log.db")) as db, db:
        db.execute("DROP TRIGGER batch_is_never_changed")
        db.execute("UPDATE batch SET dictionary = 7")

    with pytest.raises(TypeError):
        dict(contents(home))
