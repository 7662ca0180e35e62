"""Places of a concurrency key, decided by the database between servers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from noetl.adapters.postgres import Postgres
from noetl.engine.decide import Request
from noetl.engine.steps.concurrency import Concurrency
from noetl.wiring.identifiers import new_execution_id

pytestmark = pytest.mark.spec("S-36", "S-64")

WORK = """
workflow:
  - step: start
    tool: {kind: noop, result: 1}
    next: {arcs: [{step: end}]}
  - {step: end, tool: {kind: noop, result: 2}}
"""
ASKS = "workflow:\n  - {step: start, tool: {kind: wait, signal: go}}\n"


async def start(
    cluster: Any, server: int, path: str, limit: int, on_limit: Any = "queue"
) -> str:
    found = await cluster.catalog.find(path, None)
    name = new_execution_id()
    places = Concurrency("k", limit, on_limit, path)
    request = Request(name, found.about, {}, concurrency=places)
    orchestrator = cluster.servers[server % len(cluster.servers)].orchestrator
    assert await orchestrator.start(found.playbook, request) is None
    return name


async def count_places(address: str) -> None:
    """The most that ever had a place at the same time, as the database sees it."""
    database = Postgres(address)
    await database.fetch("CREATE TABLE public.seen (held integer)")
    await database.fetch(
        "CREATE FUNCTION public.note_places() RETURNS trigger LANGUAGE plpgsql AS $$ "
        "BEGIN INSERT INTO public.seen SELECT count(*) FROM noetl.place AS p "
        "JOIN noetl.execution AS x ON x.number = p.execution WHERE NOT p.queued "
        "AND x.status NOT IN ('completed', 'failed', 'cancelled'); "
        "RETURN NULL; END $$"
    )
    await database.fetch(
        "CREATE TRIGGER note AFTER INSERT OR UPDATE ON noetl.place "
        "FOR EACH ROW EXECUTE FUNCTION public.note_places()"
    )
    await database.close()


async def most_places(address: str) -> int:
    database = Postgres(address)
    [(most,)] = await database.fetch("SELECT max(held) FROM public.seen")
    await database.close()
    return int(most)


async def test_two_servers_keep_one_limit(cluster_of, postgres):
    async with cluster_of() as cluster:
        await count_places(postgres)
        cluster.register("work", WORK)

        starts = [start(cluster, number, "work", 3) for number in range(30)]
        names = await asyncio.gather(*starts)

        for name in names:
            state = await cluster.end(name)
            assert (state.status, state.result) == ("completed", 2)
        assert await most_places(postgres) == 3


async def test_a_queued_execution_is_admitted_after_its_server_died(cluster_of):
    async with cluster_of() as cluster:
        cluster.register("asks", ASKS)
        first = await start(cluster, 0, "asks", 1)
        second = await start(cluster, 1, "asks", 1)
        await cluster.kill_server(1)

        await cluster.servers[0].orchestrator.load(first)  # what waits may rest
        await cluster.servers[0].orchestrator.cancel(first)

        await cluster.suspended(second)
        assert (await cluster.state(second)).queued is None


async def test_the_place_of_another_servers_execution_is_taken(cluster_of):
    async with cluster_of() as cluster:
        cluster.register("asks", ASKS)
        first = await start(cluster, 0, "asks", 1)

        second = await start(cluster, 1, "asks", 1, "cancel_previous")

        assert (await cluster.end(first)).status == "cancelled"
        await cluster.suspended(second)


async def test_a_server_with_old_facts_does_not_cancel_whom_it_lets_in(cluster_of):
    """Another one has let it in, and only that: nobody is before it any more."""
    async with cluster_of(servers=2, workers=0) as cluster:
        one, other = (server.orchestrator for server in cluster.servers)
        for server in cluster.servers:
            server.sweeping.cancel()
        cluster.register("asks", ASKS)
        await start(cluster, 0, "asks", 1)
        second = await start(cluster, 1, "asks", 1, "cancel_previous")
        await other.load(second)
        assert (await cluster.state(second)).queued is not None
        async with asyncio.timeout(30):
            while (await cluster.state(second)).queued is not None:
                await one.sweep()

        await other.limiter.admit_queued(second)

        state = await cluster.state(second)
        assert (state.status, state.cancelling) == ("running", None)
