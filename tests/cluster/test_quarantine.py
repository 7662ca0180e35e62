"""An execution whose log is broken is set aside, seen by all, and taken back."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from stored_log import PostgresLog

from noetl.errors import SetAside

CHAIN = """
workflow:
  - step: start
    tool: {kind: noop, result: 1}
    next: {arcs: [{step: end, args: {x: "{{ event.payload.result }}"}}]}
  - step: end
    tool: {kind: noop, result: "{{ args.x + 1 }}"}
"""
WAITS = """
workflow:
  - step: start
    tool: {kind: wait, signal: go}
    next: {arcs: [{step: end}]}
  - {step: end, tool: {kind: noop, result: over}}
"""


async def damage(cluster, execution_id, seq, how):
    """Change an event by hand; return the log and the event as it was."""
    log = PostgresLog(cluster.servers[0].database, execution_id)
    body = await log.read(seq)
    await log.write(seq, how(body))
    for server in cluster.servers:
        server.orchestrator.cache.drop(execution_id)
    return log, body


def without_token(body):
    """An event that cannot be folded: somebody took a member out of its payload."""
    event = msgspec.json.decode(body)
    del event["payload"]["token"]
    return msgspec.json.encode(event)


async def is_aside(cluster, execution_id):
    store = cluster.servers[0].store
    async with asyncio.timeout(30):
        while (await store.summary(execution_id)).status != "quarantined":  # noqa: ASYNC110
            await asyncio.sleep(0.01)  # other processes ring no bell here
    return await store.summary(execution_id)


@pytest.mark.spec("S-62", "SRV-09")
async def test_a_log_that_cannot_be_folded_is_set_aside_and_taken_back(cluster_of):
    async with cluster_of(workers=0) as cluster:
        cluster.register("chain", CHAIN)
        broken = await cluster.start("chain")
        store = cluster.servers[0].store
        events = await store.read(broken)
        [seq] = [each.seq for each in events if each.name == "workflow.started"]
        log, body = await damage(cluster, broken, seq, without_token)
        cluster.add_worker()
        other = await cluster.end(await cluster.start("chain"))
        summary = await is_aside(cluster, broken)

        assert (other.status, other.result) == ("completed", 2)
        assert summary.error["kind"] == "execution.quarantined"
        assert "KeyError" in summary.error["message"]
        orchestrator = cluster.servers[1].orchestrator
        with pytest.raises(SetAside, match="KeyError"):
            await orchestrator.recovery.release_quarantine(broken)
        assert (await store.summary(broken)).status == "quarantined"

        await log.write(seq, body)
        assert await orchestrator.recovery.release_quarantine(broken) == "running"
        state = await cluster.end(broken)

        assert (state.status, state.result) == ("completed", 2)


@pytest.mark.spec("S-62")
async def test_a_timer_of_a_broken_execution_stops_no_other_timer(cluster_of):
    async with cluster_of(workers=1) as cluster:
        cluster.register("waits", WAITS.replace("signal: go", "for: 2s"))
        broken, fine = [await cluster.start("waits") for _ in range(2)]
        for each in (broken, fine):
            await cluster.suspended(each)
        await damage(cluster, broken, 3, lambda _: b"{}")

        state = await cluster.end(fine)

        assert (state.status, state.result) == ("completed", "over")
        assert "cannot be decoded" in (await is_aside(cluster, broken)).error["message"]
