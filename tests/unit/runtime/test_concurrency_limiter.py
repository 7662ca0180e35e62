"""The limiter of concurrency keys: rejected, queued, admitted, superseded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from noetl.engine.steps.concurrency import Concurrency

Make = Callable[..., Any]

WAITS = "- {step: start, tool: {kind: noop, spec: {pool: gpu}}}"


def key(on_limit: Any = "queue", limit: int = 1) -> Concurrency:
    return Concurrency("nightly", limit, on_limit, of="t")


async def start(cluster: Any, name: str, concurrency: Concurrency | None) -> Any:
    return await cluster.start(WAITS, execution_id=name, concurrency=concurrency)


async def sweep(cluster: Any) -> None:
    cluster.clock.time += 1.0
    await cluster.server.sweep()


async def test_an_execution_without_a_key_does_not_ask(make_cluster: Make) -> None:
    cluster = make_cluster()

    assert await start(cluster, "a", None) is None

    assert cluster.store.asked_places == 0
    assert cluster.store.commits == 1


async def test_a_free_key_is_taken_with_the_first_events(make_cluster: Make) -> None:
    cluster = make_cluster()

    assert await start(cluster, "a", key()) is None

    assert cluster.store.asked_places == 0
    assert cluster.store.commits == 1


async def test_a_taken_key_rejects_and_names_the_holder(make_cluster: Make) -> None:
    cluster = make_cluster()
    await start(cluster, "a", key("reject"))

    refusal = await start(cluster, "b", key("reject"))

    assert refusal is not None
    assert refusal["holders"] == ["a"]
    assert (await cluster.store.summary("b")).finished_at is not None
    admission = await cluster.server.limiter.admit(key("reject"))
    assert admission.refusal == refusal


async def test_a_queued_execution_is_admitted_when_the_holder_ends(
    make_cluster: Make,
) -> None:
    cluster = make_cluster()
    await start(cluster, "a", key())
    assert await start(cluster, "b", key()) is None
    assert (await cluster.names("b"))[-1] == "workflow.queued"
    await sweep(cluster)
    assert "workflow.admitted" not in await cluster.names("b")

    await cluster.server.cancel("a")
    await sweep(cluster)

    assert "workflow.admitted" in await cluster.names("b")
    assert (await cluster.server.limiter.admit(key())).refusal is None


async def test_the_newest_execution_cancels_the_earlier_ones(
    make_cluster: Make,
) -> None:
    cluster = make_cluster()
    for name in ("a", "b", "c"):
        await start(cluster, name, key("cancel_previous"))

    for _ in range(3):
        await sweep(cluster)

    summaries = [await cluster.store.summary(name) for name in ("a", "b", "c")]
    assert [each.status for each in summaries] == ["cancelled", "cancelled", "running"]


@pytest.mark.parametrize("on_limit", ["queue", "cancel_previous"])
async def test_a_key_with_room_admits_at_once(
    make_cluster: Make, on_limit: str
) -> None:
    cluster = make_cluster()
    await start(cluster, "a", key(on_limit, limit=2))

    await start(cluster, "b", key(on_limit, limit=2))

    assert cluster.server.cache["b"].state.queued is None
