"""Loading an execution: how much of a long log is folded."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from noetl.engine.events import Event
from noetl.engine.evolve import replay
from noetl.ports import Snapshot, ToolCall
from noetl.runtime.executions import snapshots
from noetl.runtime.executions import transition as transitions
from noetl.runtime.executions.loaded import freeze, thaw
from noetl.runtime.executions.snapshots import body_of, catch_up, fold, refusals

Make = Callable[..., Any]

EVERY = 40
ONCE = 10
"""Events of the largest commit of these executions."""

LOOP = """
- step: start
  loop:
    in: "{{ range(%d) }}"
    iterator: x
  tool: {kind: noop, result: "{{ iter.x }}"}
"""


class Reads:
    """Counts the events that a store was asked for."""

    def __init__(self, store: Any) -> None:
        self.events = self.calls = 0
        self._read = store.read
        store.read = self

    async def __call__(self, *given: Any, **more: Any) -> Sequence[Event]:
        found: Sequence[Event] = await self._read(*given, **more)
        self.events += len(found)
        self.calls += 1
        return found


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(transitions, "SNAPSHOT_EVERY", EVERY)
    monkeypatch.setattr(snapshots, "EVENTS_PER_READ", 7)


@pytest.mark.parametrize("length", [20, 200])
async def test_what_is_folded_does_not_grow_with_the_log(
    make_cluster: Make, make_tool: Make, length: int
) -> None:
    cluster = make_cluster()
    await cluster.start(LOOP % length)
    cluster.work("w", make_tool(), 1)
    log = await cluster.finish()
    assert len(log) > 2 * length
    reads = Reads(cluster.store)

    state = await fold(cluster.store, "e")

    assert state.seq == len(log)
    assert state.finished
    assert reads.events <= EVERY + ONCE


async def test_an_execution_that_is_loaded_again_and_again_gets_snapshots(
    make_cluster: Make, make_tool: Make
) -> None:
    cluster = make_cluster()

    async def load_again(call: ToolCall) -> None:
        cluster.server.cache.drop("e")
        await cluster.server.load("e")

    await cluster.start(LOOP % 100)
    cluster.work("w", make_tool(load_again), 1)
    log = await cluster.finish()
    reads = Reads(cluster.store)

    state = await fold(cluster.store, "e")

    assert state.seq == len(log)
    assert reads.events <= EVERY + ONCE


async def test_a_short_log_is_read_once_by_a_server_that_gets_its_execution(
    make_cluster: Make, make_tool: Make
) -> None:
    cluster = make_cluster()
    await cluster.start(LOOP % 20)
    cluster.work("w", make_tool(), 1)
    log = await cluster.finish()
    cluster.store.shared = True
    cluster.server.cache.pin("e")
    cluster.server.cache.drop("e")
    reads = Reads(cluster.store)

    await cluster.server.executions.refresh("e")

    assert (reads.calls, reads.events) == (1, len(log))
    assert cluster.server.cache["e"].state.seq == len(log)

    await cluster.server.executions.refresh("e")
    assert reads.calls == 2  # another server may have committed more since


@pytest.mark.parametrize("behind", [3, 30, 300])
async def test_a_server_that_is_behind_folds_from_a_snapshot(
    make_cluster: Make, make_tool: Make, behind: int
) -> None:
    cluster = make_cluster()
    await cluster.start(LOOP % 100)
    cluster.work("w", make_tool(), 1)
    log = await cluster.finish()
    old = replay(log[:-behind])
    reads = Reads(cluster.store)

    state = await catch_up(cluster.store, "e", thaw(freeze(old)))

    assert freeze(state) == freeze(replay(log))
    assert reads.events <= EVERY + ONCE + 7


def _other_event(body: bytes) -> bytes:
    return body.replace(b'"event":"', b'"event":"0', 1)


WRONG = {
    "a changed byte": lambda body: body.replace(b'"tasks":', b'"tAsks":', 1),
    "a half": lambda body: body[: len(body) // 2],
    "another execution": lambda body: body.replace(b'"e"', b'"f"', 1),
    "another log": _other_event,
    "no text": lambda body: b"\0" + body[1:],
}


@pytest.mark.parametrize("change", WRONG.values(), ids=WRONG)
async def test_a_wrong_snapshot_is_not_believed(
    make_cluster: Make,
    make_tool: Make,
    caplog: pytest.LogCaptureFixture,
    change: Callable[[bytes], bytes],
) -> None:
    """I-07: the log is folded instead, with a warning and a count."""
    cluster = make_cluster()
    await cluster.start(LOOP % 100)
    cluster.work("w", make_tool(), 1)
    log = await cluster.finish()
    held = cluster.store._executions["e"]
    body = change(held.snapshot.body)
    assert body != held.snapshot.body
    held.snapshot = Snapshot(held.snapshot.seq, body)
    before = refusals.count

    state = await fold(cluster.store, "e")

    assert freeze(state) == freeze(replay(log))
    assert refusals.count == before + 1
    assert f"the snapshot of e at event {held.snapshot.seq} is not used" in caplog.text


async def test_a_snapshot_after_the_end_of_the_log_is_not_believed(
    make_cluster: Make, make_tool: Make
) -> None:
    """The log was restored, and the snapshot was not."""
    cluster = make_cluster()
    await cluster.start(LOOP % 100)
    cluster.work("w", make_tool(), 1)
    await cluster.finish()
    held = cluster.store._executions["e"]
    held.rows = held.rows[:10]

    state = await fold(cluster.store, "e")

    assert state.seq == held.rows[-1].last_seq < held.snapshot.seq


async def test_a_snapshot_of_other_states_is_not_used(
    make_cluster: Make, make_tool: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another release has other states; that is no defect, and not counted."""
    cluster = make_cluster()
    await cluster.start(LOOP % 100)
    cluster.work("w", make_tool(), 1)
    log = await cluster.finish()
    monkeypatch.setattr(snapshots, "shape", lambda: "2.other")
    before, reads = refusals.count, Reads(cluster.store)

    state = await fold(cluster.store, "e")

    assert freeze(state) == freeze(replay(log))
    assert refusals.count == before
    assert reads.events >= len(log)


async def test_a_snapshot_without_its_first_line_is_used(
    make_cluster: Make, make_tool: Make
) -> None:
    """Earlier versions wrote none."""
    cluster = make_cluster()
    await cluster.start(LOOP % 100)
    cluster.work("w", make_tool(), 1)
    log = await cluster.finish()
    held = cluster.store._executions["e"]
    held.snapshot = Snapshot(held.snapshot.seq, body_of(held.snapshot.body))
    reads = Reads(cluster.store)

    state = await fold(cluster.store, "e")

    assert freeze(state) == freeze(replay(log))
    assert reads.events <= EVERY + ONCE
