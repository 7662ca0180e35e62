"""Open executions that nothing continues: said aloud, mended, or set aside (I-45)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from noetl.runtime.executions.stalls import LOOK_EVERY_S, STALLED_AFTER_S

Make = Callable[..., Any]

ONE = "- {step: start, tool: {kind: noop, result: 1}}"


async def look(cluster: Any, after: float = 0.0) -> int:
    cluster.clock.time += after
    await cluster.server.sweep()
    count: int = cluster.server.stalls.count
    return count


def lose_rows(cluster: Any) -> None:
    commands = cluster.store._commands
    commands._by_id.clear()
    commands._leased.clear()
    commands._pools.clear()


async def test_a_stalled_execution_goes_on(make_cluster: Make, make_tool: Make) -> None:
    cluster = make_cluster()
    await cluster.start(ONE)
    lose_rows(cluster)

    assert await look(cluster) == 0
    assert await look(cluster, STALLED_AFTER_S - 1.0) == 0
    assert await look(cluster, LOOK_EVERY_S) == 1
    cluster.work("w", make_tool(), 1)
    log = await cluster.finish()
    assert log[-1].payload["status"] == "completed"


async def test_what_moves_is_not_stalled(make_cluster: Make) -> None:
    cluster = make_cluster()
    await cluster.start(ONE)

    assert await look(cluster) == 0
    assert await look(cluster, 2 * STALLED_AFTER_S) == 0


async def test_what_its_log_does_not_continue_either_is_set_aside(
    make_cluster: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster = make_cluster()
    await cluster.start(ONE)
    lose_rows(cluster)
    monkeypatch.setattr(cluster.store._commands, "change", lambda *given: None)

    await look(cluster)
    assert await look(cluster, STALLED_AFTER_S + 1.0) == 1
    assert (await cluster.store.summary("e")).status == "running"
    assert await look(cluster, STALLED_AFTER_S + 1.0) == 2

    summary = await cluster.store.summary("e")
    assert summary.status == "quarantined"
    assert "has no command, lease or timer" in summary.error["message"]
