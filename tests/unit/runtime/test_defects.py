"""What a tool or a pipeline raises ends that pipeline, and no other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from noetl.engine.tasks.outcome import Outcome
from noetl.ports import ToolCall

Make = Callable[..., Any]

TWO = """
- step: start
  loop: {in: [0, 1], iterator: x, spec: {mode: parallel}}
  tool:
    - one: {kind: noop, x: "{{ iter.x }}", spec: {policy: {rules: [
        {when: "{{ outcome.status == 'error' }}", then: {do: continue}}]}}}
    - two: {kind: noop, x: 1}
"""


class Mute(Exception):
    def __str__(self) -> str:
        raise ValueError("nothing can be said")


class Strange(BaseException):
    """Neither an error nor a stop."""


RAISED = [
    RuntimeError("x"),
    RecursionError("x"),
    MemoryError(),
    KeyboardInterrupt(),
    SystemExit(3),
    asyncio.CancelledError(),
    StopAsyncIteration(),
    Strange("x"),
    Mute(),
]


@pytest.mark.parametrize("raised", RAISED, ids=lambda each: type(each).__name__)
async def test_whatever_a_tool_raises_is_an_outcome(
    make_cluster: Make, make_tool: Make, raised: BaseException
) -> None:
    async def fail(call: ToolCall) -> Any:
        if call.inputs["x"] == 0:
            raise raised

    cluster = make_cluster()
    await cluster.start(TWO)
    cluster.work("w", make_tool(fail))
    log = await cluster.finish()
    done = [each for each in log if each.name == "task.done"]
    kinds = [(each.payload["outcome"]["error"] or {}).get("kind") for each in done]
    assert sorted(map(str, kinds)) == ["None", "None", "None", "tool.contract"]
    assert log[-1].payload["status"] == "completed"


async def test_an_outcome_that_is_none_fails_its_pipeline_and_names_the_defect(
    make_cluster: Make, make_tool: Make
) -> None:
    class Odd(make_tool):  # type: ignore[misc]
        async def run(self, call: ToolCall) -> Any:
            return None if call.inputs["x"] == 0 else Outcome.ok()

    cluster = make_cluster()
    await cluster.start(TWO)
    cluster.work("w", Odd())
    log = await cluster.finish()
    failed = [each for each in log if each.name == "loop.iteration.failed"]
    assert [each.payload["error"]["kind"] for each in failed] == ["worker.defect"]
    number = failed[0].payload["error"]["details"]["defect"]
    assert number in failed[0].payload["error"]["message"]
    assert [each.name for each in log].count("loop.iteration.done") == 1


async def test_a_tool_that_cannot_say_whether_it_has_an_effect_is_run_as_if_it_had(
    make_cluster: Make, make_tool: Make
) -> None:
    class Odd(make_tool):  # type: ignore[misc]
        def has_effect(self, call: ToolCall) -> bool:
            raise ValueError("no")

    cluster = make_cluster()
    await cluster.start(TWO)
    cluster.work("w", Odd())
    assert (await cluster.finish())[-1].payload["status"] == "completed"


async def test_a_kind_that_this_worker_does_not_have_fails_the_task(
    make_cluster: Make, make_tool: Make
) -> None:
    cluster = make_cluster()
    await cluster.start("- {step: start, tool: {kind: http, url: 'http://x'}}")
    cluster.work("w", make_tool())
    log = await cluster.finish()
    (done,) = (each for each in log if each.name == "task.done")
    assert "no tool of kind 'http'" in done.payload["outcome"]["error"]["message"]
