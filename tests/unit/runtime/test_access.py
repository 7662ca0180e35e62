"""Executions are loaded from their log, refreshed, cancelled, and continued."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from noetl.engine.reports.accept import OutOfOrder
from noetl.errors import StoreError

Make = Callable[..., Any]

ONE = "- {step: start, tool: {kind: noop}}"


async def test_a_loaded_execution_is_not_read_again(make_cluster: Make) -> None:
    cluster = make_cluster()
    await cluster.start(ONE)
    executions = cluster.server.executions

    state = await executions.load("e")

    assert state is cluster.server.cache["e"].state


async def test_an_evicted_execution_is_read_from_its_log(make_cluster: Make) -> None:
    cluster = make_cluster()
    await cluster.start(ONE)
    before = cluster.server.cache["e"].state
    cluster.server.cache.drop("e")

    state = await cluster.server.load("e")

    assert state is not before
    assert state == before


async def test_an_unknown_execution_is_refused(make_cluster: Make) -> None:
    cluster = make_cluster()

    with pytest.raises(StoreError, match="there is no execution e"):
        await cluster.server.load("e")
    with pytest.raises(OutOfOrder, match="e is not open here"):
        await cluster.server.cancel("e")


async def test_a_cancel_is_recorded(make_cluster: Make) -> None:
    cluster = make_cluster()
    await cluster.start(ONE)

    await cluster.server.cancel("e", {"kind": "user", "message": "by hand"})

    assert (await cluster.store.summary("e")).status == "cancelled"


async def test_a_history_that_was_stored_as_a_whole_wakes_the_workers(
    make_cluster: Make,
) -> None:
    cluster = make_cluster()
    await cluster.start(ONE)
    cluster.server.cache.drop("e")
    listener = cluster.server.wakeup.listen()

    await cluster.server.recovery.resume_from_log("e")

    assert listener.is_set()
    assert "e" in cluster.server.cache


async def test_a_history_that_has_ended_is_not_kept_in_memory(
    make_cluster: Make, make_tool: Make
) -> None:
    cluster = make_cluster()
    await cluster.start(ONE)
    cluster.work("w", make_tool())
    await cluster.finish()

    await cluster.server.recovery.resume_from_log("e")

    assert "e" not in cluster.server.cache
