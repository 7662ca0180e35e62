"""Server and workers in one process, on the store in memory and a clock of ours."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Sequence
from textwrap import dedent, indent
from typing import Any

import pytest

from noetl import load
from noetl.adapters.blobs.memory import MemoryBlobs
from noetl.adapters.catalogs.files import FileCatalog
from noetl.adapters.secrets.memory import MemorySealed
from noetl.adapters.stores.memory import MemoryStore
from noetl.dsl.merge import deep_merge
from noetl.engine.decide import Request
from noetl.engine.events import Event
from noetl.engine.outcome import Outcome
from noetl.ports import ToolCall
from noetl.runtime.executor import Executor
from noetl.runtime.keychain import Keyring
from noetl.runtime.orchestrator import Orchestrator
from noetl.runtime.results import Results
from noetl.types import JSON

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: tests/t}\n"
HUNG = 60.0
"""Seconds after which a test that waits for workers is declared dead."""

Work = Callable[[ToolCall], Awaitable[JSON]]


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Async tests run on a loop of their own."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = inspect.signature(pyfuncitem.obj).parameters
    asyncio.run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


class Clock:
    """Stands still until the test moves it; nobody sleeps to the end."""

    def __init__(self) -> None:
        self.time = 1_800_000_000.0

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        await asyncio.Event().wait()


class Recorder:
    """A tool that keeps its calls; what it answers is the test's."""

    instant = False

    def __init__(self, work: Work | None = None) -> None:
        self.calls: list[ToolCall] = []
        self._work = work

    async def run(self, call: ToolCall) -> Outcome:
        self.calls.append(call)
        if self._work is not None:
            return Outcome.ok(await self._work(call))
        return Outcome.ok(call.inputs.get("result"))

    def has_effect(self, call: ToolCall) -> bool:
        return True

    async def close(self) -> None:
        pass


class Cluster:
    """One server, and workers that come and go."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.clock = Clock()
        blobs = MemoryBlobs()
        catalog = FileCatalog([], blobs)
        keys = Keyring({}, MemorySealed())
        self.server = Orchestrator(
            self.store, Results(blobs), catalog, self.clock, keys
        )
        self.batches: list[list[Event]] = []
        self._over = asyncio.Event()
        self._workers: list[asyncio.Task[None]] = []
        self.server.watch(self._note)

    async def start(
        self, workflow: str, root: str = "", workload: dict[str, JSON] | None = None
    ) -> None:
        text = HEAD + dedent(root) + "workflow:\n" + indent(dedent(workflow), "  ")
        playbook = load(text).playbook
        assert playbook is not None, load(text).diagnostics
        merged = deep_merge(playbook.workload, workload or {})
        about = {"name": playbook.name, "path": playbook.path}
        await self.server.start(playbook, Request("e", about, merged))

    def work(self, owner: str, tool: Recorder, slots: int = 4) -> None:
        """Let a worker come that runs ``noop`` by this tool."""
        worker = Executor(
            self.server, {"noop": tool}, self.clock, owner=owner, slots=slots
        )
        self._workers.append(asyncio.create_task(worker.serve()))

    async def finish(self) -> list[Event]:
        """Wait for the end; the log."""
        async with asyncio.timeout(HUNG):
            await self._over.wait()
        for worker in self._workers:
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)
        return await self.log()

    async def log(self) -> list[Event]:
        return list(await self.store.read("e"))

    def _note(self, events: Sequence[Event]) -> None:
        self.batches.append(list(events))
        if events[-1].name == "playbook.processed":
            self._over.set()


@pytest.fixture(scope="session")
def make_cluster() -> Callable[[], Any]:
    """To be called inside the loop of the test."""
    return Cluster


@pytest.fixture(scope="session")
def make_tool() -> Callable[..., Any]:
    return Recorder
