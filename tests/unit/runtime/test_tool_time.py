"""How long a call may take: the operator's limit, and the default of an hour."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from noetl.engine.tasks.outcome import Outcome
from noetl.ports import ToolCall
from noetl.runtime.worker.executor import Executor
from noetl.runtime.worker.tool_call import DEFAULT_TIMEOUT_S, time_limit

Make = Callable[..., Any]
DAY = 86_400.0


class Endless:
    """A tool without a timeout of its own, as a plug-in may bring it."""

    instant = False

    def __init__(self) -> None:
        self.stopped = 0

    async def run(self, call: ToolCall) -> Outcome:
        try:
            await asyncio.Event().wait()
        finally:
            self.stopped += 1
        return Outcome.ok(None)

    def has_effect(self, call: ToolCall) -> bool:
        return False

    async def close(self) -> None:
        pass


@pytest.mark.spec("S-35")
async def test_a_tool_that_never_ends_is_stopped_and_its_slot_is_free(
    make_cluster: Make,
) -> None:
    cluster, tool = make_cluster(), Endless()
    await cluster.start("- {step: start, tool: {kind: noop, spec: {timeout: 9d}}}")
    worker = Executor(
        cluster.server.assignment,
        {"noop": tool},
        cluster.clock,
        owner="w",
        slots=1,
        tool_time=0.3,
    )
    serving = asyncio.create_task(worker.serve())
    log = await cluster.finish()
    await worker.drain()
    serving.cancel()

    [done] = [event for event in log if event.name == "task.done"]
    error = done.payload["outcome"]["error"]
    assert (error["kind"], error["retryable"]) == ("timeout", True)
    assert error["message"].startswith("not done after 0.3 s: the call was stopped")
    assert "limits.tool_time" in error["message"]
    assert tool.stopped == 1
    assert worker.leases == []


@pytest.mark.parametrize(
    ("spec", "ceiling", "seconds"),
    [
        ({}, DAY, DEFAULT_TIMEOUT_S),
        ({"timeout": None}, DAY, DAY),
        ({"timeout": "99d"}, DAY, DAY),
        ({"timeout": 5}, DAY, DAY),
        ({}, 60.0, 60.0),
    ],
)
def test_the_limit_of_a_call(
    spec: dict[str, Any], ceiling: float, seconds: float
) -> None:
    limit = time_limit(spec, ceiling)

    assert limit.seconds == seconds
    assert ("limits.tool_time" in limit.message) is (seconds == ceiling)
    assert ("spec.timeout allows more" in limit.message) is (seconds != ceiling)
