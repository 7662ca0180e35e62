"""A database whose host is silent: no answer, and no end of the connection (I-47)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
from faults.namespaces import Namespaces, Wire, why_no_namespaces

from noetl.adapters import poolers as adapter
from noetl.adapters.postgres import Postgres
from noetl.adapters.stores.postgres import PostgresStore
from noetl.errors import StoreError

IMPATIENT = ("IPPROTO_TCP", "TCP_USER_TIMEOUT", 500)
LONG = 20.0


@pytest.fixture
def namespaces() -> Iterator[Namespaces]:
    if why := why_no_namespaces():
        pytest.skip(f"no network namespaces: {why}")
    made = Namespaces()
    yield made
    made.close()


async def test_a_commit_to_a_silent_host_is_looked_up_and_repeated(
    postgres: str, facts: Any, namespaces: Namespaces, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapter, "OPTIONS", [*adapter.OPTIONS[:-1], IMPATIENT])
    port = urlsplit(postgres).port or 0
    wire = Wire(port, namespaces)
    silent = asyncio.Event()
    with namespaces.inside("near"):  # the sockets of the driver, too
        database = Postgres(postgres.replace(f"127.0.0.1:{port}", wire.far_end))
        store = await PostgresStore.open(database)
        await store.commit([facts.transition("a", 0)])
        run = database.run

        async def watched(work: Any) -> Any:
            try:
                return await run(work)
            except StoreError:
                if not silent.is_set():
                    wire.heal()
                silent.set()
                raise

        monkeypatch.setattr(database, "run", watched)
        wire.silence("back")  # the commit arrives, and its answer is lost
        commit = asyncio.ensure_future(store.commit([facts.transition("a", 1)]))
        await asyncio.wait_for(silent.wait(), LONG)
        await asyncio.wait_for(commit, LONG)

        assert len(await store.read("a")) == 2
        assert await store.verify("a") is None
        await database.close()
    wire.close()
