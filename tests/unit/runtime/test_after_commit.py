"""Reactions to a commit: their order, and the wake-ups of workers and servers."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from typing import Any

import pytest

from noetl.engine.decide import pause
from noetl.engine.effects import Effects
from noetl.runtime.executions.after_commit import AfterCommit, Commit, Reaction

Make = Callable[..., Any]

ONE = "- {step: start, tool: {kind: noop, spec: {pool: gpu}}}"


class Bus:
    def __init__(self) -> None:
        self.rings: list[set[str]] = []

    def wake(self, pools: Collection[str]) -> None:
        self.rings.append(set(pools))


async def test_reactions_are_called_in_their_order(make_cluster: Make) -> None:
    cluster, calls = make_cluster(), []
    await cluster.start(ONE)
    commit = Commit(cluster.server.cache["e"], [], Effects(), [])
    after_commit = AfterCommit(
        [
            Reaction(lambda commit: calls.append("first")),
            Reaction(lambda commit: calls.append("never"), lambda commit: False),
            Reaction(lambda commit: calls.append("second")),
        ]
    )

    after_commit(commit)

    assert calls == ["first", "second"]


async def test_ready_work_wakes_this_process_and_other_servers(
    make_cluster: Make,
) -> None:
    bus = Bus()
    cluster = make_cluster(wakeup_bus=bus)
    listener = cluster.server.wakeup.listen()

    await cluster.start(ONE)

    assert listener.is_set()
    assert bus.rings == [{"gpu"}]
    listener.clear()
    await cluster.server.decide("e", pause)
    assert not listener.is_set()
    assert bus.rings == [{"gpu"}]


async def test_watchers_get_the_events_after_the_commit(make_cluster: Make) -> None:
    cluster, stored = make_cluster(), []
    cluster.server.watch(lambda events: stored.append(cluster.store.commits))

    await cluster.start(ONE)

    assert stored == [1]


async def test_a_finished_execution_leaves_a_server_and_stays_embedded(
    make_cluster: Make, make_tool: Make
) -> None:
    for pool, stays in ((None, False), ("own", True)):
        cluster = make_cluster(pool=pool)
        await cluster.start("- {step: start, tool: {kind: noop}}")
        cluster.work("w", make_tool())
        await cluster.finish()

        assert cluster.server.changed.is_set()
        assert ("e" in cluster.server.cache) == stays


async def test_the_log_names_executions_and_pipelines_at_the_level_debug(
    make_cluster: Callable[..., Any],
    make_tool: Callable[..., Any],
    caplog: pytest.LogCaptureFixture,
) -> None:
    cluster = make_cluster()
    with caplog.at_level(logging.DEBUG, "noetl"):
        await cluster.start("- {step: start, tool: {kind: noop}}")
        cluster.work("w", make_tool())
        await cluster.finish()

    told = {record.message: vars(record) for record in caplog.records}
    assert told["an execution starts"]["path"] == "tests/t"
    begun = told["a pipeline begins"]
    ids = [begun[name] for name in ("execution_id", "command_id", "step")]
    assert ids == ["e", "e-1", "start"]
    assert told["an execution ended"]["status"] == "completed"
