"""Servers without HTTP, on a clock that tests set: what is due is due by that clock."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from servers import HELLO

from noetl.access.initiator import Initiator
from noetl.adapters.catalogs.catalog import RegisteredCatalog
from noetl.adapters.plugins.enabled import Plugins
from noetl.adapters.secrets.private_files import write_private
from noetl.adapters.tools.registry import make_tools
from noetl.config import read_settings
from noetl.local.home import Home
from noetl.ports import Summary
from noetl.runtime.event_loop import SystemClock
from noetl.runtime.make_orchestrator import make_orchestrator
from noetl.runtime.worker.executor import Executor
from noetl.service.catalog import CatalogService
from noetl.service.executions.queries import ExecutionQueries
from noetl.service.executions.start import ExecutionStarter
from noetl.service.triggers.scheduler import TriggerScheduler
from noetl.triggers.definition import Definition
from noetl.wiring.backend import Backend, open_backend
from noetl.wiring.identifiers import new_execution_id


class Watch:
    """A clock that stands still until somebody sets it."""

    def __init__(self, now: float) -> None:
        self.time = now

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Node:
    """One server: its triggers go by ``watch``, its executions by the real time."""

    def __init__(self, backend: Backend, watch: Watch) -> None:
        self.backend, self.store = backend, backend.store
        self.late = self.left_out = 0
        catalog = RegisteredCatalog(backend.catalog_rows, backend.results.own)
        self.orchestrator = make_orchestrator(
            backend.store, backend.results, catalog, SystemClock(), backend.keys
        )
        blobs = backend.results.own
        starting = ExecutionStarter(self.orchestrator, blobs, catalog, new_execution_id)
        self.standing = TriggerScheduler(
            backend.triggers,
            self.orchestrator,
            starting,
            ExecutionQueries(backend.store, blobs),
            backend.cipher,
            watch,
            new_execution_id,
            self.note,
        )
        self.playbooks = CatalogService(
            backend.catalog_rows, blobs, SystemClock(), new_execution_id
        )
        self.tools = make_tools(4, backend.keys)
        self.executor = Executor(
            self.orchestrator.assignment,
            self.tools,
            SystemClock(),
            owner="node",
            slots=4,
        )

    def note(self, *, late: int = 0, left_out: int = 0) -> None:
        self.late += late
        self.left_out += left_out

    async def register(self, text: str) -> None:
        loaded = await self.playbooks.validate(text)
        await self.playbooks.register(loaded, text, "ann")

    async def make(self, *, replace: bool = False, **members: Any) -> None:
        definition = msgspec.convert(
            {"name": "t", "playbook": "tests/hello", **members}, Definition
        )
        owner = Initiator("ann")
        await self.standing.arranging.make(definition, owner, replace=replace)

    async def executions(self) -> list[Summary]:
        return list(reversed(await self.store.find(limit=1_000)))

    async def slots(self) -> list[str]:
        """Of all executions, in the order in which they began: whose slots they are."""
        found = []
        for each in await self.executions():
            [first] = await self.store.read(each.execution_id, limit=1)
            trigger = first.payload["caller"].get("trigger")
            if trigger is not None:
                found.append(trigger["slot"])
        return found

    async def ended(self, count: int) -> list[Summary]:
        """When so many executions are over."""
        async with asyncio.timeout(60):
            while True:
                found = await self.executions()
                if sum(each.finished_at is not None for each in found) >= count:
                    return found
                await self.orchestrator.sweep()
                await asyncio.sleep(0.01)


@asynccontextmanager
async def open_node(
    folder: Path, watch: Watch, database: str | None = None, *, work: bool = True
) -> AsyncIterator[Node]:
    home = Home(folder)
    home.make()
    if not home.key.exists():  # servers on one database have the same key
        write_private(home.key, bytes(range(32)))
    async with AsyncExitStack() as closing:
        backend = await open_backend(home, database, Plugins(), read_settings())
        closing.push_async_callback(backend.closing.aclose)
        node = Node(backend, watch)
        closing.push_async_callback(node.orchestrator.close)
        tasks = [node.executor.serve(), node.orchestrator.serve()] if work else []
        running = [asyncio.ensure_future(each) for each in tasks]
        await node.register(HELLO)
        try:
            yield node
        finally:
            for task in running:
                task.cancel()
                with suppress(asyncio.CancelledError):
                    await task
            for tool in node.tools.values():
                await tool.close()


@pytest.fixture
def watch() -> Watch:
    """It is 2026-05-01, 12:00 in UTC."""
    return Watch(1_777_636_800.0)


@pytest.fixture
def node_at():
    return open_node


@pytest.fixture(params=["sqlite", "postgres"])
def database(request: pytest.FixtureRequest) -> str | None:
    if request.param == "sqlite":
        return None
    address: str = request.getfixturevalue("postgres")
    return address
