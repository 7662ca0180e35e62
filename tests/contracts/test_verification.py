"""Verification of stored executions: each kind of damage is found, with its place."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from open_execution import FLOW, NAME, start
from stored_log import row_of

from noetl.engine.reports.accept import OutOfOrder
from noetl.errors import StoreError
from noetl.ports import Snapshot
from noetl.report.tally import VERSION
from noetl.runtime.executions.record_checks import check_progress
from noetl.service.executions.views.tallies import Folded

BOTH = pytest.mark.parametrize("store", ["sqlite", "postgres"], indirect=True)
ALL = pytest.mark.parametrize("store", ["memory", "sqlite", "postgres"], indirect=True)


async def maybe(result: Any) -> Any:
    return await result if hasattr(result, "__await__") else result


@ALL
async def test_an_open_execution_is_intact(world: Any) -> None:
    assert await world.findings() == []
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

    assert await world.findings() == []
    assert (await world.store.records(NAME)).commands == []
    assert (await world.store.summary(NAME)).status == "cancelled"


@BOTH
@pytest.mark.spec("EVT-01")
async def test_a_flipped_bit_names_the_events_of_its_row(world: Any) -> None:
    row = await maybe(world.log.flip(3))

    [first, *_] = await world.findings()

    words = f"one of the events {row.first_seq} to {row.last_seq} is"
    assert first[:2] == ("I-04", row.first_seq)
    assert first[2].startswith(words)


@BOTH
@pytest.mark.spec("EVT-01")
async def test_a_removed_row_names_its_first_event(world: Any) -> None:
    row = row_of(await maybe(world.log.rows()), 6)
    await maybe(world.log.remove([6]))

    message = f"event {row.first_seq} is missing"
    assert ("I-04", row.first_seq, message) in await world.findings()


@BOTH
@pytest.mark.spec("EVT-01")
async def test_an_edited_event_is_named(world: Any) -> None:
    def edit(seq: int, body: bytes) -> bytes | None:
        return body.replace(b'"status":"ok"', b'"status":"error"')

    [row, *_] = await maybe(world.log.change(edit))

    found = await world.findings()

    assert found[0][:2] == ("I-04", row.first_seq)
    assert ("I-26", 7, "the status is success") in found


@ALL
@pytest.mark.spec("S-48")
async def test_a_missing_value_names_the_event_that_refers_to_it(world: Any) -> None:
    [event] = [e for e in await world.store.read(NAME) if "spilled" in e.payload]
    key = event.payload["workload"]["large"]["key"]
    await world.blobs.remove(key, before=9e18)

    message = f"blob {key} is not in memory any more"
    assert await world.findings() == [("I-35", event.seq, message)]


@ALL
@pytest.mark.spec("S-48")
async def test_a_damaged_value_is_found(world: Any) -> None:
    [event] = [e for e in await world.store.read(NAME) if "spilled" in e.payload]
    key = event.payload["workload"]["large"]["key"]
    world.blobs._blobs[key] = (b"other", 0.0)

    [(invariant, seq, message)] = await world.findings()

    assert (invariant, seq) == ("I-35", event.seq)
    assert "is damaged" in message


@ALL
async def test_a_missing_text_of_the_playbook_is_found(world: Any) -> None:
    await world.blobs.remove(await world.blobs.put(FLOW.encode()), before=9e18)

    assert [each[:2] for each in await world.findings()] == [("I-05", 1)]


@ALL
async def test_a_tally_is_compared_with_the_log(world: Any) -> None:
    folded = Folded()
    for event in (await world.store.read(NAME))[:5]:
        folded.take(event)
    body = msgspec.json.encode(folded)

    await world.store.keep_tally(NAME, VERSION, Snapshot(5, body))
    assert await world.findings() == []
    await world.store.keep_tally(NAME, VERSION, Snapshot(4, body))

    message = "the tally at event 4 is not what the log adds up to"
    assert await world.findings() == [("I-07", 4, message)]


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
    assert await world.findings() == []


@ALL
async def test_the_records_of_an_unknown_execution_are_missing(world: Any) -> None:
    with pytest.raises(StoreError) as error:
        await world.store.records("gone")

    assert error.value.kind == "store.missing"
