"""Server and workers in one process, on the store in memory and a clock of ours."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import pytest
from memory_blobs import MemoryBlobs

from noetl import load
from noetl.adapters.catalogs.files import FileCatalog, pin
from noetl.adapters.secrets.execution_secrets import MemorySealed
from noetl.adapters.stores.memory.store import MemoryStore
from noetl.dsl.normalize import deep_merge
from noetl.engine.decide import Request
from noetl.engine.events import Event
from noetl.engine.tasks.outcome import Outcome
from noetl.ports import QueuedExecution, ToolCall, Transition
from noetl.runtime.keychain import Keyring
from noetl.runtime.make_orchestrator import make_orchestrator
from noetl.runtime.values.stores import Results
from noetl.runtime.worker.executor import Executor
from noetl.types import JSON

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: tests/t}\n"
HUNG = 60.0
"""Seconds after which a test that waits for workers is declared dead."""

Work = Callable[[ToolCall], Awaitable[JSON]]


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


class Store(MemoryStore):
    """Counts commits and reads of concurrency keys. ``failures`` are raised, one by
    one, instead of commits; a commit waits for ``open``."""

    def __init__(self) -> None:
        super().__init__()
        self.commits = 0
        self.asked_places = 0
        self.failures: list[Exception] = []
        self.open = asyncio.Event()
        self.open.set()

    async def commit(self, transitions: Sequence[Transition]) -> None:
        await self.open.wait()
        if self.failures:
            raise self.failures.pop(0)
        await super().commit(transitions)
        self.commits += 1

    async def slots_of(self, key: str) -> Sequence[QueuedExecution]:
        self.asked_places += 1
        return await super().slots_of(key)


class Cluster:
    """One server, and workers that come and go.

    ``folders`` hold the playbooks that executions call; other options are those of
    ``make_orchestrator``.
    """

    def __init__(self, *, folders: Sequence[Path] = (), **options: Any) -> None:
        self.store = Store()
        self.clock = Clock()
        self.blobs = MemoryBlobs()
        catalog = FileCatalog(folders, self.blobs)
        keys = Keyring({}, MemorySealed())
        self.server = make_orchestrator(
            self.store, Results(self.blobs), catalog, self.clock, keys, **options
        )
        self.batches: list[list[Event]] = []
        self._over = asyncio.Event()
        self._workers: list[asyncio.Task[None]] = []
        self.server.watch(self._note)

    async def start(
        self,
        workflow: str,
        root: str = "",
        workload: dict[str, JSON] | None = None,
        *,
        execution_id: str = "e",
        **members: Any,
    ) -> dict[str, JSON] | None:
        text = HEAD + dedent(root) + "workflow:\n" + indent(dedent(workflow), "  ")
        loaded = load(text)
        assert loaded.playbook is not None, loaded.diagnostics
        merged = deep_merge(loaded.playbook.workload, workload or {})
        about = await pin(loaded, text.encode(), None, self.blobs)
        request = Request(execution_id, about, merged, **members)
        return await self.server.start(loaded.playbook, request)

    def work(
        self, owner: str, tool: Recorder, slots: int = 4, kind: str = "noop"
    ) -> None:
        """Let a worker come that runs one kind, ``noop``, by this tool."""
        worker = Executor(
            self.server.assignment, {kind: tool}, self.clock, owner=owner, slots=slots
        )
        self._workers.append(asyncio.create_task(worker.serve()))

    async def finish(self) -> list[Event]:
        """Wait for the end; the log."""
        async with asyncio.timeout(HUNG):
            await self._over.wait()
        await self.stop()
        return await self.log()

    async def stop(self) -> None:
        """Stop all workers."""
        for worker in self._workers:
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)

    async def log(self, execution_id: str = "e") -> list[Event]:
        return list(await self.store.read(execution_id))

    async def names(self, execution_id: str = "e") -> list[str]:
        return [event.name for event in await self.log(execution_id)]

    async def until(self, is_true: Callable[[], bool]) -> None:
        """Let the tasks of the server run until this is true."""
        async with asyncio.timeout(HUNG):
            while not is_true():  # noqa: ASYNC110 - no event tells when tasks end
                await asyncio.sleep(0)

    def _note(self, events: Sequence[Event]) -> None:
        self.batches.append(list(events))
        if events[-1].name == "playbook.processed" and events[-1].execution_id == "e":
            self._over.set()


@pytest.fixture(scope="session")
def make_cluster() -> Callable[[], Any]:
    """To be called inside the loop of the test."""
    return Cluster


@pytest.fixture(scope="session")
def make_tool() -> Callable[..., Any]:
    return Recorder
