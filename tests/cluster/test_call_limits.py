"""Rates and slots of calls over several servers and workers."""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from typing import Any

import pytest

from noetl.engine.tasks.outcome import Outcome

pytestmark = pytest.mark.spec("S-78", "S-68")


class Clocked:
    """A tool that notes when it is called, and how many calls run at the same time."""

    instant = False

    def __init__(self) -> None:
        self.calls = 0
        self.running = self.most = 0
        self.hang: str | None = None
        self.hung = asyncio.Event()

    def has_effect(self, call: Any) -> bool:
        return True

    async def run(self, call: Any) -> Outcome:
        self.calls += 1
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


class Permits:
    """Notes the moments at which servers permit calls.

    The calls themselves may come later, and closer together, on a busy machine.
    """

    def __init__(self) -> None:
        self.times: list[float] = []

    def watch(self, server: Any) -> None:
        ask = server.store.permit

        async def permit(lease: Any, limits: Any, *, now: float) -> float:
            at: float = await ask(lease, limits, now=now)
            if not at:
                self.times.append(now)
            return at

        server.store.permit = permit

    def most_in(self, seconds: float) -> int:
        """Return the largest number of permits in a sliding window."""
        times = sorted(self.times)
        ends = (bisect_left(times, at + seconds) for at in times)
        return max(end - start for start, end in enumerate(ends))


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


async def test_a_rate_holds_in_every_window_and_after_a_restart(cluster_of):
    tool, permits = Clocked(), Permits()
    async with cluster_of(servers=2, workers=4) as cluster:
        use(cluster, tool)
        for server in cluster.servers:
            permits.watch(server)
        rate = "rate: {limit: 8/s, key: shared}"
        cluster.register("calls", CALLS.replace("SPEC", rate))
        started = [await cluster.start("calls") for _ in range(3)]
        async with asyncio.timeout(30):
            while tool.calls < 8:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        await cluster.kill_server(1)
        permits.watch(await cluster.add_server())

        states = [await cluster.end(each) for each in started]
        logs = [await cluster.servers[0].store.read(each) for each in started]

    assert [state.error for state in states] == [None] * 3
    assert tool.calls == 24 == len(permits.times)
    assert permits.most_in(1.0) <= 8
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
