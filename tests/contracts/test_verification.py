"""Verification of stored executions: each kind of damage is found, with its place."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from memory_blobs import MemoryBlobs
from stored_log import PostgresLog, SqliteLog, row_of

from noetl.adapters.postgres import Postgres
from noetl.adapters.secrets.execution_secrets import MemorySealed
from noetl.adapters.stores.batches import link
from noetl.adapters.stores.sqlite import SqliteStore
from noetl.adapters.tools import BUILTIN
from noetl.dsl.load import load
from noetl.engine.decide import Request
from noetl.engine.reports.accept import Fact, OutOfOrder
from noetl.engine.steps.concurrency import Concurrency
from noetl.ports import Snapshot
from noetl.report.tally import VERSION
from noetl.runtime.event_loop import SystemClock
from noetl.runtime.executions import transition
from noetl.runtime.executions.record_checks import check_progress
from noetl.runtime.keychain import Keyring
from noetl.runtime.make_orchestrator import make_orchestrator
from noetl.runtime.values.stores import Results
from noetl.service.executions.verification import StoreCheck
from noetl.service.executions.views.tallies import Folded

# One pipeline waits for an hour, one is leased, one is ready; a deadline runs.
FLOW = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: t, path: tests/t}
workflow:
- step: start
  tool: [{a: {kind: noop}}]
  next: {spec: {mode: inclusive}, arcs: [{step: leased}, {step: ready}, {step: waits}]}
- {step: leased, spec: {deadline: 3600}, tool: {kind: noop}}
- {step: ready, tool: {kind: noop}}
- {step: waits, tool: {kind: wait, for: 1h}}
"""
NAME = "0198-open"
ID = f"(SELECT number FROM execution WHERE execution_id = '{NAME}')"
DONE = {
    "outcome": {"status": "ok", "result": 1, "error": None, "meta": {}},
    "directive": {"do": "continue", "rule": None, "next": None},
}


class Catalog:
    """Only the playbook of this test."""

    def __init__(self, playbook: Any) -> None:
        self._playbook = playbook

    async def pinned(self, about: Any) -> Any:
        return self._playbook


async def start(
    store: Any, blobs: MemoryBlobs, name: str, request_key: str | None = ""
) -> Any:
    """Start an execution with a large input, and a slot of a concurrency key."""
    loaded = load(FLOW.encode(), BUILTIN)
    playbook = loaded.playbook
    assert playbook is not None, loaded.diagnostics
    keys = Keyring({}, MemorySealed())
    orchestrator = make_orchestrator(
        store, Results(blobs), Catalog(playbook), SystemClock(), keys
    )
    request = Request(
        name,
        {"name": "t", "source": await blobs.put(FLOW.encode())},
        {"large": "x" * 100_000},
        concurrency=Concurrency("k", 1, "queue", name),
        request_key=f"key of {name}" if request_key == "" else request_key,
    )
    await orchestrator.start(playbook, request)
    return orchestrator


async def advance(orchestrator: Any) -> None:
    """End the first step; then one worker waits, and one has a lease."""
    assign = orchestrator.assignment
    [first] = await assign.claim("w", 1)
    facts = [Fact("step.started"), Fact("task.started", "a", 1)]
    await assign.report(first.lease, [*facts, Fact("task.done", "a", 1, DONE)])
    found = {item.frame.step: item for item in await assign.claim("w", 2)}
    waits = found.get("waits") or (await assign.claim("w", 1, waits=True))[0]
    label = waits.progress.label
    started = [Fact("step.started"), Fact("task.started", label, 1)]
    wait = Fact("task.suspended", label, 1, {"on": "timer", "seconds": 3600})
    await assign.report(waits.lease, [*started, wait])
    left = [item for step, item in found.items() if step != "waits"]
    await assign.release([item.lease for item in left if item.frame.step == "ready"])
    await orchestrator.sweep()
    if not any(item.frame.step == "leased" for item in left):
        await assign.claim("w", 1)


@pytest.fixture
def world(store: Any, run: Any, request: Any, tmp_path: Any, monkeypatch: Any) -> Any:
    """An open execution with all kinds of rows, and the check of its store."""
    monkeypatch.setattr(transition, "SNAPSHOT_EVERY", 1)
    blobs = MemoryBlobs()
    orchestrator = run(start(store, blobs, NAME))
    run(advance(orchestrator))
    database = None
    if isinstance(store, SqliteStore):
        log: Any = SqliteLog(tmp_path / "log.db", NAME)
    elif request.node.callspec.params["store"].startswith("postgres"):
        database = Postgres(request.getfixturevalue("postgres"))
        log = PostgresLog(database, NAME)
    else:
        log = None
    check = StoreCheck(store, blobs, lambda about, body: load(body, BUILTIN).playbook)
    yield SimpleNamespace(
        orchestrator=orchestrator, check=check, log=log, blobs=blobs, store=store
    )
    run(orchestrator.close())
    if database is not None:
        run(database.close())


BOTH = pytest.mark.parametrize("store", ["sqlite", "postgres"], indirect=True)
ALL = pytest.mark.parametrize("store", ["memory", "sqlite", "postgres"], indirect=True)


async def found_in(world: Any) -> list[tuple[str, int, str]]:
    found = await world.check.verify(NAME)
    return [(each.invariant, each.seq, each.message) for each in found.breaches]


async def maybe(result: Any) -> Any:
    return await result if hasattr(result, "__await__") else result


@ALL
async def test_an_open_execution_is_intact(world: Any) -> None:
    assert await found_in(world) == []
    records = await world.store.records(NAME)
    assert {row.state for row in records.commands} == {"leased", "ready", "delayed"}
    assert [timer.timer_id for timer in records.timers] == [f"step:{NAME}-2"]
    assert records.snapshot is not None
    assert records.slot is not None
    assert await world.store.strays() == []


@ALL
async def test_a_finished_execution_is_intact(world: Any) -> None:
    await world.orchestrator.cancel(NAME)
    for lease in await world.store.held("w"):
        await world.orchestrator.assignment.report(lease, [])

    assert await found_in(world) == []
    assert (await world.store.records(NAME)).commands == []
    assert (await world.store.summary(NAME)).status == "cancelled"


@BOTH
@pytest.mark.spec("EVT-01")
async def test_a_flipped_bit_names_the_events_of_its_row(world: Any) -> None:
    row = await maybe(world.log.flip(3))

    [first, *_] = await found_in(world)

    words = f"one of the events {row.first_seq} to {row.last_seq} is"
    assert first[:2] == ("I-04", row.first_seq)
    assert first[2].startswith(words)


@BOTH
@pytest.mark.spec("EVT-01")
async def test_a_removed_row_names_its_first_event(world: Any) -> None:
    row = row_of(await maybe(world.log.rows()), 6)
    await maybe(world.log.remove([6]))

    message = f"event {row.first_seq} is missing"
    assert ("I-04", row.first_seq, message) in await found_in(world)


@BOTH
@pytest.mark.spec("EVT-01")
async def test_an_edited_event_is_named(world: Any) -> None:
    def edit(seq: int, body: bytes) -> bytes | None:
        return body.replace(b'"status":"ok"', b'"status":"error"')

    [row, *_] = await maybe(world.log.change(edit))

    found = await found_in(world)

    assert found[0][:2] == ("I-04", row.first_seq)
    assert ("I-26", 7, "the status is success") in found


@ALL
@pytest.mark.spec("S-48")
async def test_a_missing_value_names_the_event_that_refers_to_it(world: Any) -> None:
    [event] = [e for e in await world.store.read(NAME) if "spilled" in e.payload]
    key = event.payload["workload"]["large"]["key"]
    await world.blobs.remove(key, before=9e18)

    message = f"blob {key} is not in memory any more"
    assert await found_in(world) == [("I-35", event.seq, message)]


@ALL
@pytest.mark.spec("S-48")
async def test_a_damaged_value_is_found(world: Any) -> None:
    [event] = [e for e in await world.store.read(NAME) if "spilled" in e.payload]
    key = event.payload["workload"]["large"]["key"]
    world.blobs._blobs[key] = (b"other", 0.0)

    [(invariant, seq, message)] = await found_in(world)

    assert (invariant, seq) == ("I-35", event.seq)
    assert "is damaged" in message


@ALL
async def test_a_missing_text_of_the_playbook_is_found(world: Any) -> None:
    await world.blobs.remove(await world.blobs.put(FLOW.encode()), before=9e18)

    assert [each[:2] for each in await found_in(world)] == [("I-05", 1)]


COMMAND = (
    "INSERT INTO command (command_id, execution, family, rank, pool, state, "
    "not_before, epoch, owner, expires_at) "
    f"VALUES ('{NAME}-9', {ID}, {ID}, 1, 'default', 'leased', 0, 3, 'x', 9e9)"
)
TIMER = "INSERT INTO timer (execution, timer_id, due_at, kind) VALUES "


@BOTH
@pytest.mark.parametrize(
    ("sql", "invariant", "words"),
    [
        pytest.param(
            COMMAND, "I-16", f"command {NAME}-9, leased to x", id="a lease too many"
        ),
        pytest.param(
            "DELETE FROM command WHERE state = 'ready'",
            "I-18",
            "has no command",
            id="a missing command",
        ),
        pytest.param(
            "UPDATE command SET owner = 'x' WHERE state = 'ready'",
            "I-16",
            "is ready, and owned by x",
            id="an owner without a lease",
        ),
        pytest.param(
            "UPDATE command SET owner = NULL WHERE state = 'leased'",
            "I-16",
            "has owner None",
            id="a lease without an owner",
        ),
        pytest.param(
            "UPDATE command SET not_before = not_before - 60 WHERE state = 'delayed'",
            "I-50",
            "is delayed until",
            id="a wait that ends too early",
        ),
        pytest.param(
            "UPDATE command SET state = 'delayed', not_before = 9 "
            "WHERE state = 'ready'",
            "I-50",
            "is delayed until 9",
            id="a delay without a wait",
        ),
        pytest.param(
            f"{TIMER} ({ID}, 'execution', 7, 'deadline')",
            "I-28",
            "there is a timer execution, due at 7",
            id="a timer too many",
        ),
        pytest.param(
            "DELETE FROM timer", "I-28", f"no timer step:{NAME}-2", id="a timer too few"
        ),
        pytest.param(
            "UPDATE timer SET due_at = 7",
            "I-28",
            f"step:{NAME}-2 is due at 7",
            id="a timer at another time",
        ),
        pytest.param(
            "UPDATE snapshot SET seq = seq - 1",
            "I-07",
            "the snapshot at event",
            id="a stale snapshot",
        ),
        pytest.param(
            "UPDATE snapshot SET seq = 900",
            "I-07",
            "says that it is of event 900",
            id="a snapshot of no event",
        ),
        pytest.param(
            "UPDATE execution SET status = 'completed'",
            "I-07",
            "listings find it as completed",
            id="a wrong status in the listing",
        ),
        pytest.param(
            "UPDATE execution SET summary = "
            "replace(summary, '\"running\"', '\"paused\"'), status = 'paused'",
            "I-07",
            "the listing has status paused",
            id="a wrong line in the listing",
        ),
        pytest.param(
            "DELETE FROM place", "I-21", "no slot of a concurrency key", id="no slot"
        ),
        pytest.param(
            "UPDATE place SET most = 7", "I-21", "its slot is", id="another limit"
        ),
        pytest.param(
            "UPDATE execution SET last_seq = last_seq - 1",
            "I-04",
            "event 1",
            id="an event after the end on record",
        ),
    ],
)
async def test_a_wrong_row_is_named(
    world: Any, write: Any, sql: str, invariant: str, words: str
) -> None:
    await write(sql)

    found = await found_in(world)

    assert [each for each in found if each[0] == invariant and words in each[2]], found
    assert all(seq > 0 for _, seq, _ in found)


@BOTH
async def test_a_wait_that_was_ended_too_early_is_named(world: Any, write: Any) -> None:
    """A live store knows the time; a copy of a store does not."""
    await write("UPDATE command SET state = 'ready' WHERE state = 'delayed'")
    live = StoreCheck(world.store, None, lambda about, body: None, now=lambda: 0.0)

    [breach] = (await live.verify(NAME)).breaches

    assert breach.invariant == "I-50"
    assert "is ready, and waits for its timer" in breach.message
    assert await found_in(world) == []


@BOTH
async def test_a_snapshot_that_cannot_be_decoded_is_named(
    world: Any, write: Any
) -> None:
    seq = (await world.store.records(NAME)).snapshot.seq
    await write("UPDATE snapshot SET body = ?", [(b"{",)])

    [(invariant, at, message)] = await found_in(world)

    assert (invariant, at) == ("I-07", seq)
    assert message.startswith("the snapshot cannot be decoded")


@BOTH
async def test_a_line_that_cannot_be_decoded_is_named(world: Any, write: Any) -> None:
    await write("UPDATE execution SET summary = '{'")

    [(invariant, seq, _)] = await found_in(world)

    assert (invariant, seq) == ("I-07", await world.store.length(NAME))


@pytest.mark.parametrize("store", ["memory"], indirect=True)
async def test_a_batch_that_does_not_decode_names_its_events(world: Any) -> None:
    rows = world.store._executions[NAME].rows
    last = rows[-1]._replace(body=b"no frame")
    rows[-1] = last._replace(hash=link(rows[-2].hash, last))

    [(invariant, seq, message)] = await found_in(world)

    assert (invariant, seq) == ("I-51", last.first_seq)
    assert (
        f"one of the events {last.first_seq} to {last.last_seq} is damaged" in message
    )


@ALL
async def test_a_tally_is_compared_with_the_log(world: Any) -> None:
    folded = Folded()
    for event in (await world.store.read(NAME))[:5]:
        folded.take(event)
    body = msgspec.json.encode(folded)

    await world.store.keep_tally(NAME, VERSION, Snapshot(5, body))
    assert await found_in(world) == []
    await world.store.keep_tally(NAME, VERSION, Snapshot(4, body))

    message = "the tally at event 4 is not what the log adds up to"
    assert await found_in(world) == [("I-07", 4, message)]


@BOTH
@pytest.mark.parametrize(
    ("sql", "table", "name"),
    [
        (COMMAND.replace(f"'{NAME}-9'", "'other-1'"), "command", "other-1"),
        (f"{TIMER} (999, 'step:x', 7, 'deadline')", "timer", "step:x"),
    ],
)
async def test_a_row_of_no_execution_is_found(
    world: Any, write: Any, sql: str, table: str, name: str
) -> None:
    await write(sql)

    [stray] = await world.store.strays()

    assert (stray.table, stray.name) == (table, name)


@BOTH
async def test_a_key_with_more_holders_than_slots_is_found(
    world: Any, write: Any
) -> None:
    other = await start(world.store, world.blobs, "0199-open")
    assert (await world.store.records("0199-open")).slot.queued is False
    await write("UPDATE place SET key = 'shared'")
    await other.close()

    [stray] = await world.store.strays()

    assert (stray.table, stray.name) == ("place", "shared")
    assert "2 executions hold it, of 1" in stray.message


@ALL
async def test_all_executions_are_verified_in_their_order(world: Any) -> None:
    other = await start(world.store, world.blobs, "0199-open")
    await other.close()
    seen: list[int] = []

    async def progress(events: int) -> None:
        seen.append(events)

    found = [each async for each in world.check.all(progress)]

    assert [each.execution_id for each in found] == [NAME, "0199-open"]
    assert [each.breaches for each in found] == [[], []]
    assert sum(seen) == sum(each.events for each in found)


@ALL
async def test_epochs_only_grow_from_one_look_to_the_next(world: Any) -> None:
    before = await world.store.records(NAME)
    await world.orchestrator.assignment.release(await world.store.held("w"))
    await world.orchestrator.sweep()
    await world.orchestrator.assignment.claim("v", 1)
    after = await world.store.records(NAME)

    assert list(check_progress(before, after)) == []
    assert {each.invariant for each in check_progress(after, before)} == {"I-16"}


@ALL
@pytest.mark.spec("S-37")
async def test_an_execution_that_has_begun_is_not_accepted_again(world: Any) -> None:
    """Two servers may start one child at the same moment."""
    before = await world.store.length(NAME)

    with pytest.raises(OutOfOrder):
        await start(world.store, world.blobs, NAME, request_key=None)

    assert await world.store.length(NAME) == before
    assert await found_in(world) == []
