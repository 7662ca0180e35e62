"""A limit on executions at once, while the servers that keep it are killed."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from faults.cluster import Cluster
from servers import Api

from noetl.adapters.postgres import Postgres
from noetl.adapters.stores.postgres import PostgresStore
from noetl.engine.evolve import replay
from noetl.engine.invariants import Audit

# PostgreSQL is started as `noetl up` does it: it outlives who started it.
pytestmark = pytest.mark.filterwarnings("ignore:subprocess .* is still running")

HUNG = 300.0


LIMITED = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: limited, path: tests/limited}
executor: {spec: {concurrency: {key: all, limit: 2}}}
workflow:
  - step: start
    tool: {kind: noop, result: 1}
    next: {arcs: [{step: end}]}
  - {step: end, tool: {kind: noop, result: 2}}
"""
COUNTED = """
CREATE TABLE public.seen (held integer);
CREATE FUNCTION public.note_places() RETURNS trigger LANGUAGE plpgsql
SECURITY DEFINER AS $$
BEGIN
  INSERT INTO public.seen SELECT count(*) FROM noetl.place AS p
  JOIN noetl.execution AS x ON x.number = p.execution
  WHERE NOT p.queued AND x.status NOT IN ('completed', 'failed', 'cancelled');
  RETURN NULL;
END $$;
CREATE TRIGGER note AFTER INSERT OR UPDATE ON noetl.place
FOR EACH ROW EXECUTE FUNCTION public.note_places();
"""
"""The most that ever had a place at the same time, as the database sees it."""


@pytest.mark.spec("S-36", "S-64")
def test_a_limit_holds_while_servers_are_killed(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path / "home", 2, 1, nats=False)
    postgres = cluster.database
    apis = [Api(url, cluster.token) for url in cluster.urls]
    try:
        asyncio.run(count_places(postgres))
        names = []
        for number in range(24):
            victim = number // 6 % 2
            if number % 6 == 5:  # in the middle of what the last ones have begun
                cluster.kill(f"server{victim}")
            body = {"playbook": LIMITED, "idempotency_key": f"n{number}"}
            alive = 1 - victim if number % 6 == 5 else number % 2
            started = apis[alive].post("/api/executions", body)
            assert started.status == 201, started.body
            names.append(started.body["execution_id"])
            if number % 6 == 5:
                cluster.start(f"server{victim}")
                cluster.await_server(victim)
        states = [asyncio.run(ended(postgres, name)) for name in names]
        most = asyncio.run(most_places(postgres))
    finally:
        cluster.close()

    assert [(state.status, state.result) for state in states] == [("completed", 2)] * 24
    assert most == 2


async def count_places(address: str) -> None:
    database = Postgres(address)
    await database.run(lambda connection: connection.execute(COUNTED))
    await database.close()


async def most_places(address: str) -> int:
    database = Postgres(address)
    [(most,)] = await database.fetch("SELECT max(held) FROM public.seen")
    [(left,)] = await database.fetch("SELECT count(*) FROM noetl.place")
    await database.close()
    assert left == 0
    return int(most)


async def ended(address: str, execution_id: str) -> Any:
    """The end of an execution, whose log is whole."""
    database = Postgres(address)
    store = await PostgresStore.open(database)
    async with asyncio.timeout(HUNG):
        while (await store.summary(execution_id)).finished_at is None:  # noqa: ASYNC110
            await asyncio.sleep(0.2)  # other processes ring no bell here
    assert await store.verify(execution_id) is None
    events, audit = await store.read(execution_id), Audit()
    breaches = [breach for event in events for breach in audit.take(event)]
    assert [*breaches, *audit.end()] == []
    await database.close()
    return replay(events)
