"""The cache of loaded executions: load, pin, evict."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from noetl.engine.reports.accept import OutOfOrder
from noetl.errors import StoreError
from noetl.runtime.executions import cache as residents
from noetl.runtime.executions.cache import KEEP_LOADED_FOR_S

Make = Callable[..., Any]

ONE = "- {step: start, tool: {kind: noop}}"
ELSEWHERE = "- {step: start, tool: {kind: noop, spec: {pool: gpu}}}"
WAITS = "- {step: start, tool: {kind: wait, signal: go}}"


async def test_an_execution_that_is_not_loaded_is_refused(make_cluster: Make) -> None:
    cache = make_cluster().server.cache

    assert cache.get("e") is None
    with pytest.raises(OutOfOrder, match="e is not open here"):
        cache["e"]
    with pytest.raises(StoreError, match="there is no execution e") as caught:
        await cache.load("e")
    assert caught.value.kind == "store.missing"


async def test_callers_that_load_together_read_the_log_once(make_cluster: Make) -> None:
    cluster = make_cluster()
    await cluster.start(ONE)
    before, cache = cluster.server.cache["e"].state, cluster.server.cache
    cache.drop("e")

    loaded = await asyncio.gather(cache.load("e"), cache.load("e"), cache.load("e"))

    assert [each is not None for each in loaded] == [True, False, False]
    assert cache["e"].state == before
    assert cache.is_at("e", before.seq)
    assert not cache.is_at("e", before.seq + 1)


async def test_only_a_pinned_execution_survives_eviction(make_cluster: Make) -> None:
    cluster = make_cluster()
    await cluster.start(ONE, execution_id="pinned")
    await cluster.start(ONE, execution_id="other")
    cache = cluster.server.cache
    cache.pin("pinned")

    cache.evict("pinned")
    cache.evict("other")

    assert [name in cache for name in ("pinned", "other")] == [True, False]
    cache.drop("pinned")
    assert len(cache) == 0


async def load_two(cluster: Any, make_tool: Make) -> Any:
    """Load one execution that waits and one that runs."""
    await cluster.start(WAITS)
    cluster.work("w", make_tool())
    cache = cluster.server.cache
    await cluster.until(lambda: "e" not in cache)
    await cluster.server.load("e")
    await cluster.start(ELSEWHERE, execution_id="runs")
    return cache


async def test_idle_executions_that_wait_are_evicted(
    make_cluster: Make, make_tool: Make
) -> None:
    cluster = make_cluster()
    cache = await load_two(cluster, make_tool)

    cluster.clock.time += KEEP_LOADED_FOR_S - 1
    cache.evict_idle()
    assert "e" in cache
    cluster.clock.time += 2
    cache.evict_idle()

    assert [name in cache for name in ("e", "runs")] == [False, True]


async def test_a_full_cache_evicts_at_once(
    make_cluster: Make, make_tool: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = await load_two(make_cluster(), make_tool)
    monkeypatch.setattr(residents, "MAX_CACHED", 1)

    cache.evict_idle()

    assert "e" not in cache
