"""An execution that a worker or a server cannot work with keeps no slot of it."""

from __future__ import annotations

import asyncio

import msgspec
import pytest
from stored_log import PostgresLog

from noetl.engine.waits.signals import receive
from noetl.errors import Defective
from noetl.runtime.worker.server_connection import MAX_DEFECTS

POISONED = """
workflow:
  - step: start
    tool: {kind: wait, signal: go}
    next: {arcs: [{step: end}]}
  - {step: end, tool: {kind: noop, result: "{{ ctx.big }}"}}
"""
PLAIN = """
workflow:
  - {step: start, tool: {kind: noop, result: 1}}
"""
ODD = [{}, {"key": {}, "size": 1}, {"key": "log:{id}-1", "size": 1, "range": 5}]


async def damage(cluster, execution_id, reference):
    """Put a reference that no server made into its ctx, by hand."""

    def change(_, body):
        event = msgspec.json.decode(body)
        if event["name"] != "workflow.started":
            return None
        event["payload"]["ctx"] = {"big": {"store": "noetl", **reference}}
        event["payload"]["spilled"] = ["ctx.big"]
        return msgspec.json.encode(event)

    await PostgresLog(cluster.servers[0].database, execution_id).change(change)
    for server in cluster.servers:
        server.orchestrator.cache.drop(execution_id)


async def send(cluster, execution_id):
    orchestrator = cluster.servers[0].orchestrator
    await orchestrator.load(execution_id)
    await orchestrator.decide(execution_id, lambda batch: receive(batch, "go", None))


@pytest.mark.parametrize("reference", ODD, ids=["empty", "mapping", "range"])
async def test_odd_references_keep_no_slot_of_a_worker(cluster_of, reference):
    async with cluster_of(servers=1, workers=1) as cluster:
        cluster.register("poisoned", POISONED)
        cluster.register("plain", PLAIN)
        poisoned = [await cluster.start("poisoned") for _ in range(6)]
        for each in poisoned:
            await cluster.suspended(each)
            key = reference.get("key")
            if isinstance(key, str):
                reference = {**reference, "key": key.replace("{id}", each)}
            await damage(cluster, each, reference)
            await send(cluster, each)
        plain = await cluster.start("plain")
        assert (await cluster.end(plain, 5.0)).status == "completed"
        for each in poisoned:
            summary = await over(cluster, each)
            assert summary.status in ("failed", "quarantined")


async def over(cluster, execution_id):
    store = cluster.servers[0].store
    async with asyncio.timeout(20):
        while True:
            summary = await store.summary(execution_id)
            if summary.finished_at is not None or summary.status == "quarantined":
                return summary
            await asyncio.sleep(0.02)  # other processes ring no bell here


async def test_a_server_that_only_answers_that_it_is_broken_keeps_no_slot(cluster_of):
    async with cluster_of(servers=1, workers=1) as cluster:
        [wire] = cluster.wires
        call, asked = wire.call, []

        async def answer(path, body, **how):
            if path == "source" and len(asked) < MAX_DEFECTS:
                asked.append(path)
                raise Defective("status 500")
            return await call(path, body, **how)

        wire.call = answer
        cluster.register("plain", PLAIN)
        first = await cluster.start("plain")
        assert (await cluster.end(first, 20.0)).status == "completed"
        assert len(asked) == MAX_DEFECTS
