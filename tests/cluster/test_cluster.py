"""Servers and workers together: what one of them begins, any of them finishes."""

from __future__ import annotations

import asyncio

import pytest

CHAIN = """
workflow:
  - step: start
    tool: {kind: noop, result: 1}
    next: {arcs: [{step: middle, args: {x: "{{ event.payload.result }}"}}]}
  - step: middle
    tool: {kind: noop, result: "{{ args.x + 1 }}"}
    next: {arcs: [{step: end, args: {x: "{{ event.payload.result }}"}}]}
  - step: end
    tool: {kind: noop, result: "{{ args.x + 1 }}"}
"""
LOOP = """
workload: {count: 200}
workflow:
  - step: start
    loop:
      in: "{{ range(workload.count) }}"
      iterator: i
      spec: {mode: parallel, max_in_flight: 16}
    tool:
      - a: {kind: noop, result: "{{ iter.i }}"}
      - b: {kind: noop, result: "{{ _prev + 1 }}"}
    next:
      arcs:
        - step: sum
          when: "{{ event.name == 'loop.done' }}"
          args: {all: "{{ event.payload.results }}"}
  - step: sum
    tool: {kind: noop, result: "{{ args.all | sum }}"}
"""


@pytest.mark.spec("SRV-02", "SRV-10", "WKR-02", "WKR-03", "WKR-05")
async def test_a_chain_runs_over_two_servers_and_two_workers(cluster_of):
    async with cluster_of() as cluster:
        cluster.register("chain", CHAIN)

        state = await cluster.end(await cluster.start("chain"))

        assert (state.status, state.result) == ("completed", 3)


@pytest.mark.spec("SRV-14")
async def test_a_loop_is_spread_over_workers_and_counted_once(cluster_of):
    async with cluster_of() as cluster:
        cluster.register("loop", LOOP)

        state = await cluster.end(await cluster.start("loop"))

        assert (state.status, state.result) == ("completed", sum(range(1, 201)))


@pytest.mark.spec("S-45", "S-46")
@pytest.mark.parametrize("seed", range(3))
async def test_lost_calls_and_lost_answers_change_nothing(cluster_of, faults, seed):
    trouble = faults(seed, lost=0.2, unheard=0.2)
    async with cluster_of(faults=trouble) as cluster:
        cluster.register("loop", LOOP)

        state = await cluster.end(await cluster.start("loop", count=100))

        assert (state.status, state.result) == ("completed", sum(range(1, 101)))
        assert trouble.count > 5


@pytest.mark.spec("S-37")
async def test_children_are_found_by_whichever_server_is_there(cluster_of):
    async with cluster_of() as cluster:
        cluster.register("chain", CHAIN)
        parent = """
            workflow:
              - step: start
                loop: {in: "{{ range(6) }}", iterator: i, spec: {mode: parallel}}
                tool: {kind: playbook, path: chain}
        """
        cluster.register("parent", parent)

        state = await cluster.end(await cluster.start("parent"))

        assert (state.status, state.result) == ("completed", [3] * 6)


async def test_many_executions_at_once(cluster_of):
    async with cluster_of() as cluster:
        cluster.register("chain", CHAIN)
        started = await asyncio.gather(*(cluster.start("chain") for _ in range(50)))

        states = [await cluster.end(each) for each in started]

        assert {(state.status, state.result) for state in states} == {("completed", 3)}


@pytest.mark.spec("S-45", "WKR-02")
async def test_what_a_dead_worker_had_is_taken_up_by_another(cluster_of):
    async with cluster_of(workers=1) as cluster:
        cluster.register("loop", LOOP)
        execution_id = await cluster.start("loop", count=400)
        await cluster.reach(execution_id, 200)
        cluster.kill_worker(0)
        cluster.add_worker()

        state = await cluster.end(execution_id)

        assert (state.status, state.result) == ("completed", sum(range(1, 401)))


@pytest.mark.spec("SRV-09")
async def test_what_a_dead_server_had_is_taken_up_by_another(cluster_of):
    async with cluster_of() as cluster:
        cluster.register("loop", LOOP)
        execution_id = await cluster.start("loop", count=400)
        await cluster.reach(execution_id, 200)
        await cluster.kill_server(0)

        state = await cluster.end(execution_id)

        assert (state.status, state.result) == ("completed", sum(range(1, 401)))


@pytest.mark.spec("S-37")
@pytest.mark.parametrize("when", ["begun", "ended"])
async def test_a_child_is_not_forgotten_with_the_server(cluster_of, when):
    """The server that would have begun it, or passed its answer on, is gone."""
    async with cluster_of(servers=1, workers=0) as cluster:
        cluster.register("chain", CHAIN)
        call = "{kind: playbook, path: chain}"
        cluster.register("parent", f"workflow: [{{step: start, tool: {call}}}]")
        families = cluster.servers[0].orchestrator.families
        cluster.servers[0].sweeping.cancel()
        if when == "begun":
            families._adopt = lambda *_: None
        else:
            families._answer = _never
        cluster.add_worker()
        execution_id = await cluster.start("parent")
        await cluster.suspended(execution_id)
        await cluster.add_server()
        await cluster.kill_server(0)

        state = await cluster.end(execution_id)

        assert (state.status, state.result) == ("completed", 3)


async def _never(*_: object) -> None:
    """Killed before it could."""


@pytest.mark.spec("S-64")
async def test_a_step_goes_to_the_pool_that_it_names(cluster_of):
    async with cluster_of(workers=1) as cluster:
        workflow = """
            workflow:
              - step: start
                tool: {kind: noop}
                next: {arcs: [{step: heavy}]}
              - step: heavy
                spec: {pool: gpu}
                tool: {kind: noop, result: done}
        """
        cluster.register("pools", workflow)
        execution_id = await cluster.start("pools")
        await cluster.reach(execution_id, 8)
        other = await cluster.start("pools")  # what w0 does next shows that it is free
        await cluster.reach(other, 8)
        states = [await cluster.state(each) for each in (execution_id, other)]
        assert [next(iter(s.runs.values())).step for s in states] == ["heavy", "heavy"]

        cluster.add_worker(pool="gpu")
        state = await cluster.end(execution_id)

        assert (state.status, state.result) == ("completed", "done")


@pytest.mark.spec("S-62")
async def test_an_execution_that_cannot_be_loaded_harms_no_other(cluster_of):
    async with cluster_of(workers=0) as cluster:
        cluster.register("chain", CHAIN)
        broken = await cluster.start("chain")
        about = (await cluster.servers[0].store.read(broken, limit=1))[0].payload
        cluster.blobs._blobs[about["playbook"]["source"]] = b"not what was stored"
        told: list[str] = []
        for server in cluster.servers:
            server.orchestrator.trouble = lambda name, error: told.append(name)
            server.orchestrator.drop(broken)
        cluster.register("other", CHAIN.replace("result: 1", "result: 2"))
        cluster.add_worker()

        state = await cluster.end(await cluster.start("other"))

        assert (state.status, state.result) == ("completed", 4)
        assert set(told) == {broken}
