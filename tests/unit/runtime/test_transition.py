"""The transition of a commit: commands, timers, snapshot, concurrency key."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from noetl.engine.decide import Request, accept, reject
from noetl.engine.effects import effects_of
from noetl.engine.recorder import Batch, Recorder
from noetl.engine.state import State
from noetl.engine.steps.concurrency import Concurrency
from noetl.ports import Transition
from noetl.runtime.executions import transition as transitions
from noetl.runtime.executions.placement import Placement
from noetl.runtime.executions.transition import (
    ADMIT_TIMER,
    rejection_of,
    slot_of,
    transition_of,
)

Make = Callable[..., Any]

ONE = "- {step: start, tool: {kind: noop, spec: {pool: gpu}}}"
KEY = Concurrency("nightly", 2, "queue", of="t")


async def accepted(
    make_cluster: Make, *, queued: bool = False, concurrency: Concurrency | None = None
) -> tuple[Any, Batch]:
    """Accept a request without storing it."""
    cluster = make_cluster()
    await cluster.start(ONE, execution_id="other")
    loaded = cluster.server.cache["other"]
    loaded.state, loaded.saved, loaded.request_key = State(), 0, "once"
    batch = Batch(
        loaded.playbook, loaded.net, loaded.state, 5.0, loaded.values, loaded.secrets
    )
    request = Request("e", loaded.about, {}, concurrency=concurrency)
    accept(batch, request, queued=queued)
    return loaded, batch


def make(loaded: Any, batch: Batch, after: int = 0) -> Transition:
    effects = effects_of(batch.events)
    placement = Placement()
    planned = placement.plan(loaded, effects)
    return transition_of(loaded, batch, effects, after, planned, placement, 5.0)


async def test_ready_commands_get_the_pool_of_their_step(make_cluster: Make) -> None:
    loaded, batch = await accepted(make_cluster)

    transition = make(loaded, batch)

    assert [each.pool for each in transition.commands.planned] == ["gpu"]
    assert transition.log.events == batch.events
    assert transition.summary.status == "running"
    assert transition.slot is None


@pytest.mark.parametrize(("after", "key"), [(0, "once"), (3, None)])
async def test_only_the_first_commit_has_the_request_key(
    make_cluster: Make, after: int, key: str | None
) -> None:
    loaded, batch = await accepted(make_cluster)

    assert make(loaded, batch, after).request_key == key


async def test_a_long_log_gets_a_snapshot(
    make_cluster: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    loaded, batch = await accepted(make_cluster)
    assert make(loaded, batch).log.snapshot is None
    monkeypatch.setattr(transitions, "SNAPSHOT_EVERY", len(batch.events))

    assert make(loaded, batch).log.snapshot is not None

    assert loaded.saved == loaded.state.seq
    assert make(loaded, batch).log.snapshot is None


async def test_a_queued_execution_waits_by_a_timer(make_cluster: Make) -> None:
    loaded, batch = await accepted(make_cluster, queued=True, concurrency=KEY)

    transition = make(loaded, batch)

    assert transition.commands.planned == []
    assert [each.timer_id for each in transition.timers.armed] == [ADMIT_TIMER]
    assert transition.slot is not None
    assert transition.slot.queued


async def test_the_key_changes_only_with_the_events_that_concern_it(
    make_cluster: Make,
) -> None:
    loaded, batch = await accepted(make_cluster, concurrency=KEY)
    find = partial(slot_of, loaded.state)

    assert find(batch.events) is not None
    assert find([]) is None
    assert find([], looked=True) is not None


def test_a_rejected_request_is_one_finished_log() -> None:
    recorder = Recorder(State(), 5.0)
    reject(recorder, Request("e", {"path": "t"}, {}), {"kind": "k", "message": "m"})
    placement = Placement(is_awaited=lambda path: path == "t")

    transition = rejection_of(recorder, {"path": "t"}, "once", placement)

    assert transition.summary.finished_at is not None
    assert [each.kind for each in transition.timers.armed] == ["finished"]
    assert transition.request_key == "once"
    assert transition.commands.planned == ()
