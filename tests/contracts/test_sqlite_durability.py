"""What SQLite keeps through crashes, restarts and a hand on the file."""

from __future__ import annotations

import asyncio
import re
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from noetl.adapters.stores.sqlite import SqliteStore, writer
from noetl.adapters.stores.sqlite.schema import SQL
from noetl.adapters.stores.sqlite.writer import ThreadQueue, submit
from noetl.errors import LeaseLost, StoreError
from noetl.ports import Lease

COMMITTER = """
import asyncio, os, sys
from noetl.adapters.stores.sqlite import SqliteStore
from noetl.engine.events import Event
from noetl.ports import Append, Command, CommandChanges, Summary, Transition

path, mode, name, after = sys.argv[1:]

async def work(store, name, after):
    while True:
        events = [
            Event(event_id=f"{name}.{seq}", execution_id=name, seq=seq,
                  timestamp="2026-01-31", source="server", name="task.done",
                  entity_type="task", parent_id=None, entity_id=name, status="success",
                  payload={"text": "x" * 300})
            for seq in (after + 1, after + 2)
        ]
        summary = Summary(name, "running", {}, "-")
        command = Command(f"{name}-{after}", name)
        await store.commit([Transition(execution_id=name, log=Append(after, events),
                                       summary=summary,
                                       commands=CommandChanges([command]))])
        after += 2
        os.write(1, f"{name} {after}\\n".encode())

async def main():
    store = SqliteStore.open(path, threaded=mode == "threaded")
    names = [name] if mode == "direct" else [name + str(n) for n in range(4)]
    await asyncio.gather(*(work(store, each, int(after)) for each in names))

asyncio.run(main())
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "log.db"


@pytest.fixture
def children() -> Iterator[list[subprocess.Popen[str]]]:
    started: list[subprocess.Popen[str]] = []
    yield started
    for child in started:
        child.kill()
        child.wait()
        assert child.stdout is not None
        child.stdout.close()


@pytest.mark.spec("EVT-01", "SRV-12")
@pytest.mark.parametrize("mode", ["direct", "threaded"])
def test_everything_acknowledged_survives_kill_9(path, children, mode):
    for life in range(3):
        call = [sys.executable, "-c", COMMITTER, path, mode, f"x{life}", "0"]
        child = subprocess.Popen(call, stdout=subprocess.PIPE, text=True)
        children.append(child)
        acknowledged: dict[str, int] = {}
        for number, line in enumerate(child.stdout):
            if not line.endswith("\n"):
                break  # killed while it was saying so
            name, seq = line.split()
            acknowledged[name] = int(seq)
            if number == 60 + 17 * life:
                child.send_signal(signal.SIGKILL)
        assert child.wait() == -signal.SIGKILL

        asyncio.run(check(path, acknowledged))


async def check(path: Path, acknowledged: dict[str, int]) -> None:
    reader = SqliteStore.open(path, readonly=True)  # nobody has recovered it yet
    for name, seq in acknowledged.items():
        assert len(await reader.read(name)) >= seq
    await reader.close()
    store = SqliteStore.open(path)
    for name, seq in acknowledged.items():
        stored = await store.read(name)
        assert len(stored) >= seq
        assert len(stored) % 2 == 0  # a transition is there whole
        assert await store.verify(name) is None
    await store.close()
    with closing(sqlite3.connect(path)) as db:
        assert db.execute("PRAGMA integrity_check").fetchone() == ("ok",)


@pytest.mark.spec("REP-01")
@pytest.mark.parametrize("threaded", [False, True])
async def test_a_store_is_what_it_was_when_it_is_opened_again(path, facts, threaded):
    store = SqliteStore.open(path, threaded=threaded)
    batch = facts.transition("x", count=3, commands=["x-1"], timers={"t": 5.0})
    await store.commit([batch])
    await store.close()

    store = SqliteStore.open(path, threaded=threaded)

    assert await store.read("x") == batch.log.events
    assert list(await store.find()) == [batch.summary]
    assert [timer.timer_id for timer in await store.sweep(now=6.0)] == ["t"]
    leases = await store.claim("w", pool="default", slots=9, now=6.0, ttl=30.0)
    assert [lease.command_id for lease in leases] == ["x-1"]
    await store.close()


@pytest.mark.spec("S-45")
async def test_leases_of_another_boot_end_at_once(path, facts):
    store = SqliteStore.open(path)
    await store.commit([facts.transition("x", commands=["x-1"])])
    [old] = await store.claim("w", pool="default", slots=1, now=1.0, ttl=30.0)
    await store.close()

    store = SqliteStore.open(path)
    with pytest.raises(LeaseLost):
        await store.commit([facts.transition("x", 1, leases=[old])])
    leases = await store.claim("w", pool="default", slots=1, now=2.0, ttl=30.0)

    assert list(leases) == [Lease("x-1", "x", "w", 2)]
    await store.close()


async def test_leases_of_the_same_boot_go_on(path, facts):
    store = SqliteStore.open(path, threaded=True, boot_id="one")
    await store.commit([facts.transition("x", commands=["x-1"])])
    [lease] = await store.claim("w", pool="default", slots=1, now=1.0, ttl=30.0)
    await store.close()

    store = SqliteStore.open(path, threaded=True, boot_id="one")

    assert list(await store.renew([lease], now=2.0, ttl=30.0)) == []
    await store.close()


@pytest.mark.parametrize("threaded", [False, True])
async def test_the_write_ahead_log_is_written_from_its_start_again(
    path, facts, threaded, monkeypatch
):
    monkeypatch.setattr(writer, "CHECKPOINT", 50 * writer.PAGE)
    store = SqliteStore.open(path, threaded=threaded)
    sizes = []
    for number in range(120):
        await store.commit([facts.transition("x", number * 6, count=6)])
        await store.read("x", after=number * 6)
        sizes.append(path.with_name("log.db-wal").stat().st_size)
    await store.close()

    assert sizes[-1] == sizes[30]
    assert sizes[-1] < 200 * writer.PAGE


async def test_a_reader_does_not_hold_up_the_writer(path, facts):
    store = SqliteStore.open(path)
    await store.commit([facts.transition("x")])
    with closing(sqlite3.connect(path, isolation_level=None)) as reader:
        reader.execute("BEGIN")
        assert reader.execute("SELECT count(*) FROM batch").fetchone() == (1,)
        for number in range(1, 20):
            await store.commit([facts.transition("x", number)])
        assert reader.execute("SELECT count(*) FROM batch").fetchone() == (1,)
    assert len(await store.read("x")) == 20
    await store.close()


async def test_commits_that_follow_one_at_the_same_moment_share_one_transaction(
    path, facts, monkeypatch
):
    groups = []
    run = writer.Writer.run
    monkeypatch.setattr(
        writer.Writer,
        "run",
        lambda self, jobs: (groups.append(len(jobs)), run(self, jobs))[1],
    )
    store = SqliteStore.open(path)
    commits = [store.commit([facts.transition(f"x{n}")]) for n in range(50)]
    await asyncio.gather(*commits)

    assert groups == [1, 49]
    await store.close()


async def test_a_cancelled_commit_leaves_other_commits_alone(path, facts):
    store = SqliteStore.open(path)
    first, one, two = (
        asyncio.ensure_future(store.commit([facts.transition(name)])) for name in "wxy"
    )
    await asyncio.sleep(0)
    one.cancel()
    await asyncio.gather(first, one, two, return_exceptions=True)

    assert one.cancelled()
    assert len(await store.read("w")) == len(await store.read("y")) == 1
    await store.close()


@pytest.mark.parametrize("threaded", [False, True])
async def test_endingstores_what_is_queued(path, facts, threaded):
    store = SqliteStore.open(path, threaded=threaded)
    commits = [
        asyncio.ensure_future(store.commit([facts.transition(f"x{n}")]))
        for n in range(10)
    ]
    await asyncio.sleep(0)
    await store.close()
    await asyncio.gather(*commits)

    store = SqliteStore.open(path)
    assert len(await store.find()) == 10
    await store.close()


async def test_the_writing_thread_ends_after_the_last_job():
    gate, groups = threading.Event(), []

    class Slow:
        def run(self, jobs):
            groups.append(len(jobs))
            gate.wait(10)

        def checkpoint(self):
            pass

        def close(self):
            groups.append("closed")

    queue = ThreadQueue(Slow())
    jobs = [submit(queue, print) for _ in range(3)]
    queue._jobs.put(None)  # as close() does, but without waiting for ever
    gate.set()
    await asyncio.to_thread(queue._thread.join, 10)
    await asyncio.gather(*jobs)

    assert groups[-1] == "closed"
    assert sum(groups[:-1]) == 3


async def test_a_closed_store_says_so(path, facts):
    store = SqliteStore.open(path)
    await store.close()
    await store.close()

    for call in (store.commit([facts.transition("x")]), store.read("x")):
        with pytest.raises(StoreError) as caught:
            await call
        assert caught.value.kind == "store.closed"


FLIP = "UPDATE batch SET body = x'00' WHERE key & 0xffffffff = 1"


def tamper(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute("DROP TRIGGER batch_is_never_changed")
        db.execute("DROP TRIGGER batch_is_never_removed")
        for statement in statements:
            db.execute(statement)


@pytest.mark.spec("EVT-01")
@pytest.mark.parametrize(
    ("statement", "seq"),
    [
        pytest.param(
            "UPDATE batch SET body = CAST(substr(body, 1, 9) || x'00' || "
            "substr(body, 11) AS BLOB) WHERE key & 0xffffffff = 3",
            3,
            id="an event is edited",
        ),
        pytest.param("DELETE FROM batch WHERE key & 3 = 2", 2, id="one is removed"),
        pytest.param(
            "DELETE FROM batch WHERE key & 0xffffffff = 5", 5, id="the last is removed"
        ),
        pytest.param(
            "UPDATE batch SET hash = randomblob(32) WHERE key & 0xffffffff = 4",
            4,
            id="a hash is edited",
        ),
        pytest.param(
            "UPDATE execution SET last_seq = 4", 5, id="the position is moved back"
        ),
        pytest.param(
            "UPDATE execution SET last_hash = randomblob(32)", 5, id="the end is edited"
        ),
    ],
)
async def test_a_hand_on_the_log_is_noticed(path, facts, statement, seq):
    store = SqliteStore.open(path)
    for after in range(5):
        await store.commit([facts.transition("x", after)])
    await store.close()
    tamper(path, statement)

    store = SqliteStore.open(path)
    damage = await store.verify("x")

    assert (damage.seq, damage.kind) == (seq, "log.hash_mismatch")
    await store.close()


async def test_a_log_with_a_hole_is_not_read(path, facts):
    store = SqliteStore.open(path)
    for after in range(5):
        await store.commit([facts.transition("x", after)])
    await store.close()
    tamper(path, "DELETE FROM batch WHERE key & 0xffffffff IN (2, 5)")

    store = SqliteStore.open(path)
    for after, seq in ((0, 2), (3, 5)):
        with pytest.raises(StoreError, match=f"event {seq} is missing") as caught:
            await store.read("x", after=after)
        assert caught.value.kind == "log.hash_mismatch"
    await store.close()


@pytest.mark.parametrize("damage", ["DELETE FROM batch WHERE key & 3 = 1", FLIP])
async def test_a_reader_that_met_a_damaged_row_sees_later_commits(path, facts, damage):
    store = SqliteStore.open(path)
    for after in range(3):
        await store.commit([facts.transition("x", after)])
    tamper(path, damage)

    with pytest.raises(StoreError) as kept:
        await store.read("x")
    await store.commit([facts.transition("x", 3)])

    assert await store.length("x") == 4, kept
    await store.close()


@pytest.mark.spec("EVT-01")
@pytest.mark.parametrize(
    "statement",
    ["UPDATE batch SET body = ''", "DELETE FROM batch", "DELETE FROM dictionary"],
)
async def test_the_log_is_append_only_for_every_role(path, facts, statement):
    store = SqliteStore.open(path)
    await store.commit([facts.transition("x")])
    with (
        closing(sqlite3.connect(path)) as db,
        pytest.raises(sqlite3.IntegrityError, match=r"append-only|dictionaries"),
    ):
        db.execute(statement)
    await store.close()


async def test_what_is_over_leaves_the_queue_of_commands(path, facts):
    store = SqliteStore.open(path)
    await store.commit([facts.transition("x", commands=["x-1", "x-2"])])
    await store.commit([facts.transition("x", 1, status="cancelled")])
    await store.claim("w", pool="default", slots=1, now=1.0, ttl=30.0)

    left = await store._read(lambda db: db.execute("SELECT 1 FROM command").fetchall())

    assert left == []
    await store.close()


def test_listings_and_claims_walk_indexes(path):
    """Ten thousand past executions cost nothing: no scan, no sorting."""
    asyncio.run(SqliteStore.open(path).close())
    with closing(sqlite3.connect(path)) as db:
        for name, sql in SQL.items():
            numbered = {*re.findall(r"\?\d+", sql)}
            values = (1,) * (len(numbered) or sql.count("?"))
            plan = db.execute(f"EXPLAIN QUERY PLAN {sql}", values).fetchall()
            steps = " / ".join(row[3] for row in plan)
            # Leases, due timers and executions that wait for a slot are few.
            # A command on this machine looks for the end of an id in the index of ids.
            # What is delayed is counted up to a limit, which ends its scans.
            # What a store should not have is looked for by noetl verify alone.
            # What waits for an export is counted in an index of its own.
            # Open executions are looked at page by page.
            bounded = ("count_delayed", "parked", "idle")
            # Lines of playbooks are few, one for each text that ran; retention has
            # one row.
            whole = ("expire_other_boots", "resolve_end", "strays", "count_exports")
            whole += ("own_retention", "plan_removal", "has_turn")
            if name not in (*whole, *bounded):
                tables = steps.replace("SCAN (subquery", "")  # of a row or two
                tables = tables.replace("SCAN CONSTANT ROW", "")
                tables = tables.replace("SCAN w VIRTUAL TABLE", "")  # given labels
                assert "SCAN" not in tables, (name, steps)
            if name not in ("due_timers", "slots", *bounded):
                assert "TEMP B-TREE" not in steps, (name, steps)
