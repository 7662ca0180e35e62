"""Servers and workers together: what one of them begins, any of them finishes."""

from __future__ import annotations

import asyncio
from functools import partial

import pytest
from lease_history import lease_counts, record_leases

from noetl.adapters.secrets.aes_gcm import WorkerSeal
from noetl.engine.decide import pause, resume
from noetl.engine.waits.signals import receive
from noetl.runtime.executions.cache import KEEP_LOADED_FOR_S
from noetl.runtime.worker_protocol import messages
from noetl.runtime.worker_protocol.leases import Caller

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


BRIEF = """
workflow:
  - step: start
    tool: {kind: shell, command: "sleep 0.6; echo done", spec: {idempotent: true}}
"""


@pytest.mark.spec("S-39", "WKR-05")
async def test_a_worker_survives_the_order_to_abandon_a_call(cluster_of):
    """A call without effects is put on record after a moment. If its execution was
    paused by then, its worker leaves it, and another one begins it again."""
    async with cluster_of(servers=1, workers=1, ttl=30.0) as cluster:
        cluster.register("brief", BRIEF)
        [server], [executor], [worker] = (
            *(cluster.servers, cluster.executors, cluster.workers),
        )
        execution_id = await cluster.start("brief")
        while not executor.leases:  # noqa: ASYNC110
            await asyncio.sleep(0)
        await server.orchestrator.decide(execution_id, pause)
        await executor.drain()
        assert not worker.done()
        assert (await cluster.state(execution_id)).status == "paused"
        await server.orchestrator.decide(execution_id, resume)
        server.orchestrator.wakeup.notify()

        state = await cluster.end(execution_id)

        assert (state.status, state.result["stdout"]) == ("completed", "done\n")


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


@pytest.mark.spec("S-45", "WKR-02")
async def test_a_worker_that_took_too_long_to_begin_goes_on_with_other_work(cluster_of):
    async with cluster_of(workers=1) as cluster:
        cluster.register("chain", CHAIN)
        line = cluster.wires[0]
        line.held["source"] = asyncio.Event()
        execution_id = await cluster.start("chain")
        async with asyncio.timeout(30):
            while not await cluster.is_leased("w0"):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        cluster.add_worker()
        await cluster.end(execution_id)
        cluster.kill_worker(1)
        line.held["source"].set()

        state = await cluster.end(await cluster.start("chain"))

        assert (state.status, state.result) == ("completed", 3)


@pytest.mark.spec("S-45", "WKR-02")
@pytest.mark.parametrize("path", ["claim", "events"])
async def test_an_order_whose_answer_was_lost_is_given_again(cluster_of, path):
    """Its lease would last for an hour; each command is leased once."""
    async with cluster_of(workers=0) as cluster:
        for server in cluster.servers:
            server.orchestrator.placement.ttl = 3600.0
        database = cluster.servers[0].database
        await record_leases(database)
        cluster.register("chain", CHAIN)
        cluster.add_worker()
        cluster.wires[0].deaf.add(path)

        state = await cluster.end(await cluster.start("chain"))

        assert (state.status, state.result) == ("completed", 3)
        assert cluster.wires[0].deaf == set()
        assert [*(await lease_counts(database)).values()] == [1, 1, 1]
        assert await database.fetch("SELECT command_id FROM command") == []


ONCE = """
workflow:
  - step: start
    tool:
      kind: shell
      command: "if [ -e {file} ]; then echo done; else touch {file}; sleep 60; fi"
"""


@pytest.mark.spec("S-45", "WKR-02")
async def test_a_worker_that_fears_for_its_lease_says_nothing_more(
    cluster_of, tmp_path
):
    """It stopped the tool by itself: that is not what became of the task."""
    async with cluster_of(servers=1, workers=0) as cluster:
        [server] = cluster.servers
        server.sweeping.cancel()  # nobody takes the lease away
        file = tmp_path / "begun"
        cluster.register("once", ONCE.format(file=file))
        cluster.add_worker(slots=1)
        execution_id = await cluster.start("once")
        async with asyncio.timeout(30):
            while not file.exists():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        cluster.wires[0].down.add("heartbeat")
        async with asyncio.timeout(30):
            while cluster.executors[0].leases:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        cluster.wires[0].down.clear()
        await cluster.add_server()

        state = await cluster.end(execution_id)

        assert state.status == "completed", state.error


@pytest.mark.spec("S-45", "WKR-02")
async def test_a_worker_does_not_begin_again_what_it_has_not_stopped_yet(cluster_of):
    async with cluster_of(workers=1) as cluster:
        cluster.register("chain", CHAIN)
        line = cluster.wires[0]
        line.held["events"] = asyncio.Event()
        line.down.add("heartbeat")
        execution_id = await cluster.start("chain")
        async with asyncio.timeout(30):
            while await cluster.most_claims() < 3:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        line.held.pop("events").set()
        async with asyncio.timeout(30):  # it is too late: refused
            while not any(each.fenced for each in cluster.servers):  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        line.down.clear()

        state = await cluster.end(execution_id)

        assert (state.status, state.result) == ("completed", 3)


@pytest.mark.spec("S-38", "WKR-02")
async def test_a_server_with_a_stale_cache_stops_no_tool_and_learns_of_a_cancel(
    cluster_of, tmp_path
):
    async with cluster_of(workers=0) as cluster:
        file = tmp_path / "begun"
        first = "workflow:\n  - {step: start, tool: {kind: noop}, "
        first += "next: {arcs: [{step: once}]}}"
        once = ONCE.format(file=file).replace("step: start", "step: once")
        cluster.register("two", once.replace("workflow:", first))
        execution_id = await cluster.start("two")
        await cluster.servers[1].orchestrator.load(execution_id)
        cluster.add_worker(slots=1)
        cluster.wires[0].only = 0
        async with asyncio.timeout(30):
            while not file.exists():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
        leases = cluster.executors[0].leases
        keys = [messages.LeaseKey(each.command_id, each.epoch) for each in leases]
        beat = messages.Heartbeat("w0", "default", 1, keys)
        caller = Caller("w0", lambda pool: True, WorkerSeal(""))

        pulse = await cluster.servers[1].gateway.heartbeat(caller, beat)
        assert (pulse.lost, pulse.cancelled) == ([], [])

        await cluster.servers[0].orchestrator.cancel(execution_id)
        pulse = await cluster.servers[1].gateway.heartbeat(caller, beat)
        state = await cluster.end(execution_id)

        assert [*pulse.lost, *pulse.cancelled] == [beat.leases[0].command_id]
        assert state.status == "cancelled"


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
        children = cluster.servers[0].orchestrator.children
        cluster.servers[0].sweeping.cancel()
        if when == "begun":
            children._adopt = lambda *_: None
        else:
            children._answer = _never
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
        for server in cluster.servers:
            server.orchestrator.cache.drop(broken)
        cluster.register("other", CHAIN.replace("result: 1", "result: 2"))
        cluster.add_worker()

        state = await cluster.end(await cluster.start("other"))

        assert (state.status, state.result) == ("completed", 4)
        assert {name for server in cluster.servers for name in server.errors} == {
            broken
        }


@pytest.mark.spec("SRV-09")
async def test_an_idle_execution_is_evicted_from_memory(cluster_of):
    async with cluster_of(workers=1) as cluster:
        workflow = """
            workflow:
              - step: start
                tool: {kind: wait, signal: go}
                next: {arcs: [{step: end}]}
              - {step: end, tool: {kind: noop, result: over}}
        """
        cluster.register("waits", workflow)
        execution_id = await cluster.start("waits")
        await cluster.suspended(execution_id)
        first, second = (server.orchestrator for server in cluster.servers)
        await first.load(execution_id)
        assert execution_id in first.cache
        for server in cluster.servers:
            server.clock.ahead = KEEP_LOADED_FOR_S + 1
            async with asyncio.timeout(30):  # what was just stored may still be busy
                while execution_id in server.orchestrator.cache:
                    await server.orchestrator.sweep()
            server.clock.ahead = 0.0

        await second.load(execution_id)
        await second.decide(execution_id, partial(receive, name="go", data=None))
        state = await cluster.end(execution_id)

        assert (state.status, state.result) == ("completed", "over")
        async with asyncio.timeout(30):  # the end is stored before it is evicted
            while execution_id in second.cache:
                await second.sweep()
