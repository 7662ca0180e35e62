"""The worker: runs pipelines under leases, tells the server, and routes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from noetl.engine.reports.accept import Fact
from noetl.errors import LeaseLost
from noetl.ports import ToolCall

Make = Callable[..., Any]

COUNTING = """
- step: start
  loop: {in: [3, 1, 4, 2], iterator: most, spec: {mode: parallel, max_in_flight: 2}}
  tool:
    - count:
        kind: noop
        result: "{{ iter.total | default(0) }}"
        seen: {index: "{{ iter.index }}", task: "{{ _task }}"}
        spec:
          policy:
            rules:
              - when: "{{ (iter.total | default(0)) < iter.most }}"
                then: {do: jump, to: count,
                  set_iter: {total: "{{ (iter.total | default(0)) + 1 }}"}}
              - else: {then: {do: continue}}
    - last: {kind: noop, result: "{{ _prev * 10 }}"}
"""
TASKS = """
- step: start
  loop: {in: "{{ range(4) | list }}", iterator: x,
    spec: {mode: parallel, policy: {exec: distributed}}}
  tool:
    - one: {kind: noop, x: "{{ iter.x }}"}
    - two: {kind: noop, x: "{{ iter.x }}"}
    - three: {kind: noop, x: "{{ iter.x }}"}
"""


async def give_way(call: ToolCall) -> Any:
    """Let all others run between any two lines of this worker."""
    for _ in range(1 + ord(call.action_id[-1]) % 5):
        await asyncio.sleep(0)
    return call.inputs.get("result")


@pytest.mark.spec("WKR-03", "LOOP-09", "LOOP-16")
async def test_each_iteration_runs_the_pipeline_with_an_iter_of_its_own(
    make_cluster: Make, make_tool: Make
) -> None:
    cluster, tool = make_cluster(), make_tool(give_way)
    await cluster.start(COUNTING)
    cluster.work("w", tool)
    log = await cluster.finish()
    (done,) = (event for event in log if event.name == "loop.done")
    counted = [call.inputs for call in tool.calls if call.task == "count"]

    assert done.payload["results"] == [30, 10, 40, 20]
    for index, most in enumerate([3, 1, 4, 2]):
        mine = [call["result"] for call in counted if call["seen"]["index"] == index]
        assert mine == list(range(most + 1))
    assert {call["seen"]["task"] for call in counted} == {"count"}


@pytest.mark.spec("WKR-05", "EVT-18", "EVT-19", "EVT-20", "EVT-21", "EVT-24")
async def test_a_worker_tells_of_tasks_steps_and_iterations(
    make_cluster: Make, make_tool: Make
) -> None:
    async def divide(call: ToolCall) -> Any:
        return 1 / call.inputs["by"]

    cluster = make_cluster()
    await cluster.start(
        """
        - step: start
          tool: {kind: noop, by: 1}
          next: {arcs: [{step: each}]}
        - step: each
          spec: {policy: {failure: best_effort}}
          loop: {in: [1, 0], iterator: x}
          tool: {kind: noop, by: "{{ iter.x }}"}
          next: {arcs: [{step: end}]}
        - {step: end, tool: {kind: noop, by: 0}}
        """
    )
    cluster.work("w", make_tool(divide))
    log = await cluster.finish()
    told = {event.name for event in log if event.source == "worker"}
    tasks = [event for event in log if event.entity_type == "task"]

    assert told == {
        *("step.started", "task.started", "task.done", "step.done", "step.failed"),
        *("loop.iteration.done", "loop.iteration.failed"),
    }
    assert {event.source for event in tasks} == {"worker"}
    assert [event.name for event in tasks] == ["task.started", "task.done"] * 4
    assert [e.payload["outcome"]["status"] for e in tasks[1::2]] == [
        *("ok", "ok", "error", "error"),
    ]


@pytest.mark.spec("WKR-05", "SRV-12")
async def test_what_a_worker_says_is_stored_with_what_follows_from_it(
    make_cluster: Make, make_tool: Make
) -> None:
    cluster = make_cluster()
    await cluster.start(
        """
        - {step: start, tool: {kind: noop}, next: {arcs: [{step: end}]}}
        - {step: end, tool: {kind: noop}}
        """
    )
    cluster.work("w", make_tool())
    await cluster.finish()
    named = [[event.name for event in batch] for batch in cluster.batches]

    told = [batch for batch in named if batch[0] == "task.done"]
    assert [batch[:4] for batch in told] == [
        ["task.done", "step.done", "next.evaluated", "step.scheduled"],
        ["task.done", "step.done", "workflow.finished", "playbook.processed"],
    ]


@pytest.mark.spec("LOOP-17", "C-22")
async def test_iterations_are_spread_over_workers(
    make_cluster: Make, make_tool: Make
) -> None:
    """Each worker has one slot, and no call ends before both are at work."""
    meeting = asyncio.Barrier(2)

    async def meet(call: ToolCall) -> None:
        if call.task == "one" and call.inputs["x"] < 2:
            await meeting.wait()

    cluster, near, far = make_cluster(), make_tool(meet), make_tool(meet)
    await cluster.start(TASKS)
    cluster.work("near", near, slots=1)
    cluster.work("far", far, slots=1)
    log = await cluster.finish()

    assert near.calls
    assert far.calls
    assert len(near.calls) + len(far.calls) == 12
    assert [event.name for event in log].count("loop.iteration.done") == 4


@pytest.mark.spec("LOOP-18", "PIPE-07", "WKR-02")
async def test_an_iteration_is_one_thread_at_one_worker(
    make_cluster: Make, make_tool: Make
) -> None:
    cluster = make_cluster()
    tools = {name: make_tool(give_way) for name in ("a", "b")}
    await cluster.start(TASKS)
    for name, tool in tools.items():
        cluster.work(name, tool, slots=2)
    log = await cluster.finish()
    served = {
        name: {call.inputs["x"] for call in tool.calls} for name, tool in tools.items()
    }

    assert not served["a"] & served["b"], "two workers served one iteration"
    assert served["a"] | served["b"] == {0, 1, 2, 3}
    for index in range(4):
        mine = [
            (event.name, event.task_label)
            for event in log
            if event.iteration_id == f"e-1/{index}" and event.entity_type == "task"
        ]
        assert mine == [
            (name, label)
            for label in ("one", "two", "three")
            for name in ("task.started", "task.done")
        ]


@pytest.mark.spec("LOOP-18", "WKR-02", "SRV-11")
async def test_a_leased_iteration_belongs_to_one_worker(
    make_cluster: Make,
) -> None:
    cluster = make_cluster()
    await cluster.start(TASKS)
    mine = await cluster.server.assignment.claim("mine", 2)
    other = await cluster.server.assignment.claim("other", 10)
    nobody = await cluster.server.assignment.claim("third", 10)
    forged = msgspec.structs.replace(mine[0].lease, owner="other", epoch=2)
    before = await cluster.log()
    with pytest.raises(LeaseLost):
        await cluster.server.assignment.report(forged, [Fact("task.started", "one", 1)])

    ids = [work.lease.command_id for work in [*mine, *other]]
    assert sorted(ids) == [f"e-1/{index}" for index in range(4)]
    assert nobody == []
    assert await cluster.log() == before


@pytest.mark.spec("SRV-11", "S-45", "WKR-02")
async def test_an_expired_lease_passes_on_and_its_old_holder_is_refused(
    make_cluster: Make,
) -> None:
    cluster = make_cluster()
    await cluster.start("- {step: start, tool: [{a: {kind: noop}}]}")
    (first,) = await cluster.server.assignment.claim("first", 1)
    started = [Fact("step.started"), Fact("task.started", "a", 1)]
    await cluster.server.assignment.report(first.lease, started)
    assert await cluster.server.assignment.claim("second", 1) == []
    cluster.clock.time += 60
    await cluster.server.sweep()
    (second,) = await cluster.server.assignment.claim("second", 1)
    with pytest.raises(LeaseLost):
        await cluster.server.assignment.report(
            first.lease, [Fact("task.started", "a", 1)]
        )

    assert second.lease.command_id == first.lease.command_id
    assert second.lease.epoch > first.lease.epoch
    assert second.progress.started, "it goes on where the first one was"
