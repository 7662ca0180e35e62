"""Server and worker in one process on SQLite: what ``noetl run`` uses."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import time
from collections.abc import Coroutine, Sequence

import msgspec

from noetl.adapters.blobs.files import FileBlobs
from noetl.adapters.stores.sqlite import SqliteStore
from noetl.adapters.tools.registry import make_tools
from noetl.dsl.canonical import digest
from noetl.dsl.load import load
from noetl.dsl.merge import deep_merge
from noetl.dsl.model import Playbook
from noetl.engine.decide import Request
from noetl.engine.document import Document
from noetl.engine.events import Event
from noetl.engine.outcome import Failure
from noetl.errors import ConfigError, StoreError
from noetl.home import Home
from noetl.runtime.clock import SystemClock
from noetl.runtime.executor import Executor
from noetl.runtime.orchestrator import Orchestrator
from noetl.types import JSON

MAX_LOGS = 64
SLOTS = 16


def new_execution_id() -> str:
    """A UUID of version 7: unique, and in the order of time."""
    milliseconds = time.time_ns() // 1_000_000
    bits = milliseconds << 80 | 0x7 << 76 | secrets.randbits(76)
    bits = bits & ~(0x3 << 62) | 0x2 << 62
    text = f"{bits:032x}"
    parts = (text[:8], text[8:12], text[12:16], text[16:20], text[20:])
    return "-".join(parts)


class Embedded:
    """One execution on one log, with its own tools and slots.

    Its pool is its own, too: what a killed run left in the same log stays untouched
    until somebody resumes it.
    """

    def __init__(
        self,
        home: Home,
        store: SqliteStore,
        folder: str | None,
        execution_id: str | None = None,
    ) -> None:
        self.execution_id = execution_id or new_execution_id()
        self._folder = folder
        self._store = store
        self._blobs = FileBlobs(home.blobs)
        self._clock = SystemClock()
        self._tools = make_tools(SLOTS)
        self.orchestrator = Orchestrator(store, self._clock, pool=self.execution_id)
        self._executor = Executor(
            self.orchestrator,
            self._tools,
            self._clock,
            owner=f"embedded-{os.getpid()}",
            slots=SLOTS,
            folder=folder,
        )
        self._document = Document()
        self._ended = asyncio.Event()
        self._tasks: set[asyncio.Future[None]] = set()
        self.orchestrator.watch(self._note)

    async def start(
        self, playbook: Playbook, source: bytes, workload: dict[str, JSON]
    ) -> None:
        """Accept the execution; it is in the log when this returns."""
        about: dict[str, JSON] = {
            "name": playbook.name,
            "path": playbook.path,
            "version": playbook.version,
            "sha256": digest(playbook),
            "source": await self._blobs.put(source),
            "folder": self._folder,
        }
        merged = deep_merge(playbook.workload, workload)
        request = Request(self.execution_id, about, merged)
        await self.orchestrator.start(playbook, request)

    async def take_up(self) -> None:
        """Load the execution as an earlier process left it."""
        events = await self._store.read(self.execution_id)
        source = await self._blobs.get(events[0].payload["playbook"]["source"])
        playbook = recompile(source)
        state = await self.orchestrator.load(playbook, self.execution_id)
        self._note(events)
        if state.status == "paused":
            await self.orchestrator.resume(self.execution_id)

    async def finish(self) -> dict[str, JSON]:
        """Work until the execution has ended; its document."""
        serving = asyncio.create_task(self._executor.serve())
        ended = asyncio.create_task(self._ended.wait())
        done, _ = await asyncio.wait(
            {serving, ended}, return_when=asyncio.FIRST_COMPLETED
        )
        ended.cancel()
        serving.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await serving
        if serving in done:
            await serving  # it never returns by itself: show why it did
        return self._document.as_json()

    def interrupt(self) -> None:
        """The first time pause cleanly: running tasks finish. Then leave at once."""
        if self._executor.draining:
            self._ended.set()
            return
        self._executor.draining = True
        self._spawn(self._pause())

    async def _pause(self) -> None:
        await self.orchestrator.pause(self.execution_id)
        await self._executor.drain()
        self._ended.set()

    def expire(self, after: float) -> None:
        """The execution's time is up: cancel it (S-36)."""
        message = f"the execution took longer than {after:g} s"
        error = msgspec.to_builtins(Failure("timeout", message))
        self._spawn(self._cancel(error))

    async def _cancel(self, error: dict[str, JSON]) -> None:
        await self.orchestrator.cancel(self.execution_id, error)
        self._executor.stop_calls()

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        for tool in self._tools.values():
            await tool.close()
        await self._store.close()

    def _note(self, events: Sequence[Event]) -> None:
        self._document.take(events)
        if self._document.state.finished:
            self._ended.set()


def recompile(source: bytes) -> Playbook:
    """The playbook an execution was accepted with, from its pinned text."""
    from noetl.adapters.tools import BUILTIN

    loaded = load(source, BUILTIN)
    if loaded.playbook is None:
        raise ConfigError("the pinned playbook is not valid for this version of NoETL")
    return loaded.playbook


def open_free_log(home: Home) -> SqliteStore:
    """The first log that no other process is writing."""
    home.make()
    for number in range(1, MAX_LOGS + 1):
        try:
            return SqliteStore.open(home.log(number))
        except StoreError as error:
            if error.kind != "store.locked":
                raise
    raise ConfigError(f"{MAX_LOGS} executions are running already under {home.folder}")
