"""Rows beside a log that somebody changed: each is named, with what it should be."""

from __future__ import annotations

from typing import Any

import pytest
from open_execution import NAME, start

from noetl.adapters.stores.batches import link
from noetl.service.executions.verification import StoreCheck

ID = f"(SELECT number FROM execution WHERE execution_id = '{NAME}')"
BOTH = pytest.mark.parametrize("store", ["sqlite", "postgres"], indirect=True)
ALL = pytest.mark.parametrize("store", ["memory", "sqlite", "postgres"], indirect=True)


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

    found = await world.findings()

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
    assert await world.findings() == []


@BOTH
async def test_a_snapshot_that_cannot_be_decoded_is_named(
    world: Any, write: Any
) -> None:
    seq = (await world.store.records(NAME)).snapshot.seq
    await write("UPDATE snapshot SET body = ?", [(b"{",)])

    [(invariant, at, message)] = await world.findings()

    assert (invariant, at) == ("I-07", seq)
    assert "is wrong: it cannot be decoded" in message


@BOTH
async def test_a_line_that_cannot_be_decoded_is_named(world: Any, write: Any) -> None:
    await write("UPDATE execution SET summary = '{'")

    [(invariant, seq, _)] = await world.findings()

    assert (invariant, seq) == ("I-07", await world.store.length(NAME))


@pytest.mark.parametrize("store", ["memory"], indirect=True)
async def test_a_batch_that_does_not_decode_names_its_events(world: Any) -> None:
    rows = world.store._executions[NAME].rows
    last = rows[-1]._replace(body=b"no frame")
    rows[-1] = last._replace(hash=link(rows[-2].hash, last))

    [(invariant, seq, message)] = await world.findings()

    assert (invariant, seq) == ("I-51", last.first_seq)
    assert (
        f"one of the events {last.first_seq} to {last.last_seq} is damaged" in message
    )


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
