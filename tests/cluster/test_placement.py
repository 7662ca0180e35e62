"""Where the iterations of a loop run: on one worker, or on any."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from noetl.adapters.tools.engine_kinds import NoopTool
from noetl.engine.tasks.outcome import Outcome
from noetl.ports import ToolCall

LOOP = """
workflow:
  - step: start
    loop:
      in: "{{ range(60) }}"
      iterator: i
      spec: {mode: MODE, max_in_flight: 8, policy: {exec: EXEC}}
    tool: {kind: noop}
"""
NESTED = """
workflow:
  - step: start
    loop:
      in: "{{ range(12) }}"
      iterator: i
      spec: {mode: parallel}
      loop:
        in: "{{ range(5) }}"
        iterator: j
        spec: {mode: parallel, policy: {exec: local}}
    tool: {kind: noop}
"""


class Meeting:
    """Over when so ``many`` workers have begun something."""

    def __init__(self, many: int) -> None:
        self._many = many
        self._there: set[str] = set()
        self.begun = asyncio.Event()
        self.over = asyncio.Event()

    async def attend(self, name: str) -> None:
        self._there.add(name)
        self.begun.set()
        if len(self._there) >= self._many:
            self.over.set()
        await self.over.wait()


class Signing(NoopTool):
    """Answers with the name of its worker."""

    instant = False

    def __init__(self, name: str, meeting: Meeting) -> None:
        self._name = name
        self._meeting = meeting

    async def run(self, call: ToolCall) -> Outcome:
        await self._meeting.attend(self._name)
        return Outcome.ok(self._name)


def sign(cluster: Any, *, many: int = 1) -> Meeting:
    """Let each worker answer with its name; none does before so ``many`` have work."""
    meeting = Meeting(many)
    for number, tools in enumerate(cluster.tools):
        tools["noop"] = Signing(f"w{number}", meeting)
    return meeting


@pytest.mark.spec("LOOP-06", "S-71")
@pytest.mark.parametrize("mode", ["parallel", "sequential"])
async def test_a_local_loop_stays_on_one_worker(cluster_of, mode):
    async with cluster_of(ttl=30.0) as cluster:
        sign(cluster)
        cluster.register("loop", LOOP.replace("MODE", mode).replace("EXEC", "local"))

        states = [await cluster.end(await cluster.start("loop")) for _ in range(3)]

        assert [len(set(state.result)) for state in states] == [1, 1, 1]
        assert [len(state.result) for state in states] == [60, 60, 60]


@pytest.mark.spec("LOOP-06", "S-71")
@pytest.mark.parametrize("policy", [", policy: {exec: distributed}", ""])
async def test_others_are_spread(cluster_of, policy):
    async with cluster_of(ttl=30.0) as cluster:
        sign(cluster, many=2)
        loop = LOOP.replace(", policy: {exec: EXEC}", policy)
        cluster.register("loop", loop.replace("MODE", "parallel"))

        state = await cluster.end(await cluster.start("loop"))

        assert set(state.result) == {"w0", "w1"}


@pytest.mark.spec("LOOP-06")
async def test_of_nested_loops_each_inner_one_may_be_local(cluster_of):
    async with cluster_of(ttl=30.0) as cluster:
        sign(cluster, many=2)
        cluster.register("nested", NESTED)

        state = await cluster.end(await cluster.start("nested"))

        assert [len(set(inner)) for inner in state.result] == [1] * 12
        assert {name for inner in state.result for name in inner} == {"w0", "w1"}


@pytest.mark.spec("LOOP-06", "S-45")
async def test_what_a_dead_worker_had_of_a_local_loop_moves_to_others(cluster_of):
    async with cluster_of(workers=1) as cluster:
        meeting = sign(cluster, many=2)  # it begins, and ends nothing
        cluster.register(
            "loop", LOOP.replace("MODE", "parallel").replace("EXEC", "local")
        )
        execution_id = await cluster.start("loop")
        await asyncio.wait_for(meeting.begun.wait(), 30)
        cluster.kill_worker(0)
        cluster.add_worker()
        cluster.add_worker()
        sign(cluster)

        state = await cluster.end(execution_id)

        assert state.status == "completed"
        assert set(state.result) <= {"w1", "w2"}
        assert len(state.result) == 60
