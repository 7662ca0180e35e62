"""The inbox decides queued items together, and commits them once."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from noetl.engine.decide import no_decision, pause, resume
from noetl.engine.recorder import Batch
from noetl.engine.reports.accept import OutOfOrder
from noetl.engine.waits.signals import receive
from noetl.errors import LogConflict, StoreError
from noetl.runtime.executions.inbox import MAX_CONFLICTS

Make = Callable[..., Any]

ONE = "- {step: start, tool: {kind: noop}}"


def fail(batch: Batch) -> None:
    raise ValueError("a defect")


def refuse(batch: Batch) -> None:
    raise OutOfOrder("not now")


async def start(make_cluster: Make) -> Any:
    cluster = make_cluster()
    await cluster.start(ONE)
    cluster.store.commits = 0
    return cluster


async def test_items_that_are_queued_together_are_one_commit(
    make_cluster: Make,
) -> None:
    cluster = await start(make_cluster)
    enqueue = partial(cluster.server.executions.enqueue, "e")

    await asyncio.gather(enqueue(pause), enqueue(resume), enqueue(pause))

    assert cluster.store.commits == 1
    assert (await cluster.names())[-3:] == [
        "workflow.paused",
        "workflow.resumed",
        "workflow.paused",
    ]


async def test_a_decision_without_events_commits_nothing(make_cluster: Make) -> None:
    cluster = await start(make_cluster)

    await cluster.server.decide("e", no_decision)

    assert cluster.store.commits == 0


async def test_a_conflict_is_decided_again(make_cluster: Make) -> None:
    cluster = await start(make_cluster)
    cluster.store.failures = [LogConflict("first")] * MAX_CONFLICTS

    await cluster.server.decide("e", pause)

    assert (await cluster.names()).count("workflow.paused") == 1
    assert cluster.server.cache["e"].state.seq == len(await cluster.log())


async def test_too_many_conflicts_are_an_error(make_cluster: Make) -> None:
    cluster = await start(make_cluster)
    before = await cluster.log()
    cluster.store.failures = [LogConflict("first")] * (MAX_CONFLICTS + 1)

    with pytest.raises(LogConflict):
        await cluster.server.decide("e", pause)

    assert await cluster.log() == before
    assert cluster.server.cache["e"].state.status == "running"


@pytest.mark.parametrize("bad", [fail, refuse])
async def test_an_error_concerns_its_own_item_alone(
    make_cluster: Make, bad: Callable[[Batch], None]
) -> None:
    cluster = await start(make_cluster)
    enqueue = partial(cluster.server.executions.enqueue, "e")

    answers = await asyncio.gather(enqueue(bad), enqueue(pause), return_exceptions=True)

    assert isinstance(answers[0], ValueError | OutOfOrder)
    assert answers[1].stop is False
    assert cluster.server.cache["e"].state.status == "paused"


async def test_callers_of_a_closed_inbox_get_an_error(make_cluster: Make) -> None:
    cluster = await start(make_cluster)
    cluster.store.open.clear()
    waiting = cluster.server.executions.enqueue("e", pause)
    await asyncio.sleep(0)

    await cluster.server.inbox.close()

    with pytest.raises(StoreError, match="being stopped"):
        await waiting
    assert "workflow.paused" not in await cluster.names()


async def test_an_execution_that_only_waits_leaves_the_cache(
    make_cluster: Make, make_tool: Make
) -> None:
    cluster = make_cluster()
    await cluster.start("- {step: start, tool: {kind: wait, signal: go}}")
    cluster.work("w", make_tool())
    cache = cluster.server.cache
    await cluster.until(lambda: "e" not in cache)

    await cluster.server.load("e")
    await cluster.server.decide("e", partial(receive, name="go", data=None))

    assert (await cluster.finish())[-1].name == "playbook.processed"
