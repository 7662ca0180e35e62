"""Queues inside one execution: step runs take turns, and waits need no slot (S-79)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from noetl.ports import ToolCall
from noetl.runtime.executions import assignment
from noetl.runtime.executions.loaded import StepTurns
from noetl.runtime.executions.placement import next_place, note_begun
from noetl.runtime.worker.executor import LOOK_FOR_WAITS_S

pytestmark = pytest.mark.spec("S-79")

Make = Callable[..., Any]

BRANCHES = """
- step: start
  next:
    spec: {mode: inclusive}
    arcs: [{step: many}, {step: few}, {step: watch}]
- step: many
  loop: {in: "{{ range(30) }}", iterator: x, spec: {mode: parallel, max_in_flight: 20}}
  tool: {kind: http, url: "many"}
- step: few
  loop: {in: "{{ range(3) }}", iterator: x, spec: {mode: parallel}}
  tool: {kind: http, url: "few"}
- step: watch
  tool: {kind: wait, for: 100d}
"""


def test_step_runs_have_places_in_turn() -> None:
    turns = StepTurns(100)

    assert [next_place(turns, f"a/{index}") for index in range(4)] == [
        100,
        101,
        102,
        103,
    ]
    assert [next_place(turns, f"b/{index}") for index in range(2)] == [100, 101]
    note_begun(turns, ["a/0", "b/0", "a/1"], over=[])
    assert next_place(turns, "c") == 101
    assert next_place(turns, "b/2") == 102


def test_places_of_ended_step_runs_are_forgotten() -> None:
    turns = StepTurns()
    next_place(turns, "a")
    next_place(turns, "b/0")
    note_begun(turns, [], over=["a", "b/0", "b"])

    assert turns == StepTurns()


class Gate:
    """A tool whose calls wait until they are let through, one by one."""

    instant = False

    def __init__(self) -> None:
        self.order: list[str] = []
        self.through = asyncio.Semaphore(0)

    async def __call__(self, call: ToolCall) -> None:
        self.order.append(str(call.inputs["url"]))
        await self.through.acquire()


async def look_at_once(seconds: float) -> None:
    """Sleep for the moment in which others run, if it is to look for waits again."""
    if seconds != LOOK_FOR_WAITS_S:
        await asyncio.Event().wait()
    await asyncio.sleep(0)


async def test_a_loop_leaves_turns_and_waits_to_its_siblings(
    make_cluster: Make, make_tool: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assignment, "TIME_SLICE_S", 0.0)  # a claim after each call
    cluster, gate = make_cluster(), Gate()
    cluster.clock.sleep = look_at_once
    await cluster.start(BRANCHES)
    cluster.work("w", make_tool(gate), slots=2, kind="http")
    await cluster.until(lambda: len(gate.order) == 2)
    await cluster.until(lambda: _suspended(cluster))

    assert len(gate.order) == 2, "both slots are busy"
    for count in range(3, 12):
        gate.through.release()
        await cluster.until(lambda: len(gate.order) == count)  # noqa: B023

    assert "few" in gate.order[:3]
    assert gate.order[:8].count("few") == 3
    await cluster.stop()


def _leased(cluster: Any, command_id: str) -> bool:
    return command_id in {each.command_id for each in cluster.store._commands.held("w")}


def _suspended(cluster: Any) -> bool:
    return any(
        event.name == "task.suspended" for batch in cluster.batches for event in batch
    )


CALL = """
- step: start
  tool: {kind: http, url: first}
"""
ERROR_THEN_CALL = """
- step: start
  tool:
    - begin:
        kind: wait
        until: "{{ 'no time' }}"
        spec: {policy: {rules: [{else: {then: {do: continue}}}]}}
    - call: {kind: http, url: second}
"""


async def test_a_pipeline_that_waited_outside_needs_a_slot_for_its_call(
    make_cluster: Make, make_tool: Make
) -> None:
    cluster, gate = make_cluster(), Gate()
    cluster.clock.sleep = look_at_once
    await cluster.start(CALL, execution_id="first")
    await cluster.start(ERROR_THEN_CALL)
    cluster.work("w", make_tool(gate), slots=1, kind="http")
    await cluster.until(lambda: len(gate.order) == 1)
    await cluster.until(lambda: _leased(cluster, "e-1"))
    [alone] = gate.order
    gate.through.release()
    gate.through.release()
    log = await cluster.finish()

    assert alone == "first", "the other call waits for the slot"
    assert gate.order == ["first", "second"]
    assert log[-1].status == "success"
