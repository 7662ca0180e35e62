"""Servers without HTTP, on a clock that tests set: what is due is due by that clock."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from servers import HELLO

from noetl.access.initiators import Initiator
from noetl.adapters.catalogs.registered import RegisteredCatalog
from noetl.adapters.plugins.enabled import Plugins
from noetl.adapters.tools.registry import make_tools
from noetl.backends import Backend, open_backend
from noetl.embedded import new_execution_id
from noetl.home import Home
from noetl.ports import Summary
from noetl.runtime.clock import SystemClock
from noetl.runtime.executor import Executor
from noetl.runtime.orchestrator import Orchestrator
from noetl.service.looking import Looking
from noetl.service.playbooks import Playbooks
from noetl.service.standing import Standing
from noetl.service.starting import Starting
from noetl.triggers.definition import Definition


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Async tests run on a loop of their own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


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
        catalog = RegisteredCatalog(backend.shelf, backend.results.own)
        self.orchestrator = Orchestrator(
            backend.store, backend.results, catalog, SystemClock(), backend.keys
        )
        blobs = backend.results.own
        starting = Starting(self.orchestrator, blobs, catalog, new_execution_id)
        self.standing = Standing(
            backend.triggers,
            self.orchestrator,
            starting,
            Looking(backend.store, blobs),
            backend.cipher,
            watch,
            new_execution_id,
        )
        self.playbooks = Playbooks(
            backend.shelf, blobs, SystemClock(), new_execution_id
        )
        self.tools = make_tools(4, backend.keys)
        self.executor = Executor(
            self.orchestrator, self.tools, SystemClock(), owner="node", slots=4
        )

    async def register(self, text: str) -> None:
        loaded = await self.playbooks.validate(text)
        await self.playbooks.register(loaded, text, "ann")

    async def make(self, **members: Any) -> None:
        definition = msgspec.convert(
            {"name": "t", "playbook": "tests/hello", **members}, Definition
        )
        await self.standing.arranging.make(definition, Initiator("ann"))

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
    async with AsyncExitStack() as closing:
        backend = await open_backend(home, database, Plugins())
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
