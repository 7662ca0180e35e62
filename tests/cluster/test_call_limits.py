"""Rates and slots of calls over several servers and workers."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest

from noetl.engine.tasks.outcome import Outcome

pytestmark = pytest.mark.spec("S-78", "S-68")


class Clocked:
    """A tool that notes when it is called, and how many calls run at the same time."""

    instant = False

    def __init__(self) -> None:
        self.calls: list[float] = []
        self.running = self.most = 0
        self.hang: str | None = None
        self.hung = asyncio.Event()

    def has_effect(self, call: Any) -> bool:
        return True

    async def run(self, call: Any) -> Outcome:
        self.calls.append(time.monotonic())
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            if call.inputs.get("result") == self.hang:
                self.hung.set()
                await asyncio.Event().wait()
            await asyncio.sleep(0.03)
            return Outcome.ok()
        finally:
            self.running -= 1

    async def close(self) -> None:
        """Do nothing."""


def use(cluster: Any, tool: Clocked) -> None:
    for tools in cluster.tools:
        tools["noop"] = tool


CALLS = """
workflow:
  - step: start
    loop: {in: "{{ range(8) }}", iterator: n, spec: {mode: parallel, max_in_flight: 8}}
    tool:
      - call: {kind: noop, result: "{{ iter.n }}", spec: {SPEC, timeout: 1}}
"""


async def test_a_rate_holds_over_servers_and_after_a_restart(cluster_of):
    """A call may come late on a busy machine, but none before its second."""
    tool = Clocked()
    began = time.monotonic()
    async with cluster_of(servers=2, workers=4) as cluster:
        use(cluster, tool)
        rate = "rate: {limit: 8/s, key: shared}"
        cluster.register("calls", CALLS.replace("SPEC", rate))
        started = [await cluster.start("calls") for _ in range(3)]
        async with asyncio.timeout(30):
            while len(tool.calls) < 8:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await cluster.kill_server(1)
        await cluster.add_server()

        states = [await cluster.end(each) for each in started]
        logs = [await cluster.servers[0].store.read(each) for each in started]

    assert [state.error for state in states] == [None] * 3
    assert len(tool.calls) == 24
    assert [at for n, at in enumerate(tool.calls) if at < began + n // 8] == []
    events = [event for log in logs for event in log]
    begun = [event for event in events if event.name == "task.started"]
    assert len(begun) == 24
    assert {event.attempt for event in begun} == {1}
    waits = [event for event in events if event.name == "task.suspended"]
    assert waits
    assert {event.payload["on"] for event in waits} == {"limit"}
    assert sum(event.name == "step.started" for event in events) == 3


async def test_slots_hold_and_a_lost_worker_keeps_its_slot_for_a_lease(cluster_of):
    tool = Clocked()
    tool.hang = "lost"
    async with cluster_of(servers=2, workers=1) as cluster:
        use(cluster, tool)
        slots = "slots: {limit: 1, key: shared}"
        cluster.register("calls", CALLS.replace("SPEC", slots).replace("8) }", "3) }"))
        one = CALLS.replace("SPEC", slots).replace('"{{ range(8) }}"', "[lost]")
        cluster.register("lost", one.replace("timeout: 1", "timeout: 60"))
        lost = await cluster.start("lost")
        await asyncio.wait_for(tool.hung.wait(), 30)
        cluster.kill_worker(0)
        for _ in range(4):
            cluster.add_worker()
        use(cluster, tool)
        tool.most, tool.running = 0, 0
        tool.hang = None

        states = [await cluster.end(await cluster.start("calls")) for _ in range(2)]
        states.append(await cluster.end(lost))

    assert [state.status for state in states] == ["completed"] * 3
    assert tool.most == 1


async def test_a_first_call_with_a_rate_is_not_granted_with_a_report(cluster_of):
    chain = """
    workflow:
      - step: start
        tool: {kind: noop}
        next: {arcs: [{step: end}]}
      - step: end
        spec: {rate: {limit: 1/s, key: chain}}
        tool: [{one: {kind: noop}}, {two: {kind: noop}}]
    """
    async with cluster_of() as cluster:
        cluster.register("chain", chain)

        execution_id = await cluster.start("chain")
        await cluster.end(execution_id)
        log = await cluster.servers[0].store.read(execution_id)

    waits = [event for event in log if event.name == "task.suspended"]
    assert [event.task_label for event in waits] == ["two"]
    names = [event.name for event in log if event.step == "end"]
    assert names.count("step.started") == 1
    assert names.count("task.started") == 2
