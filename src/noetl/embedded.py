"""Server and worker in one process on SQLite, for ``noetl run``."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from functools import partial
from pathlib import Path

from noetl.adapters.catalogs.catalog import RegisteredCatalog
from noetl.adapters.catalogs.files import FileCatalog, pin
from noetl.adapters.catalogs.sqlite import SqliteCatalogRows
from noetl.adapters.network import Network
from noetl.adapters.plugins.enabled import Plugins
from noetl.adapters.stores.sqlite import SqliteStore
from noetl.adapters.stores.task_log_files import TaskLogFiles
from noetl.adapters.tools.registry import make_tools
from noetl.config import SLOTS, Settings, ceilings_of, host_policy
from noetl.dsl.load import Loaded
from noetl.dsl.model import Playbook
from noetl.dsl.playbook_inputs import MAX_WARNINGS, merge_inputs
from noetl.engine.decide import Request, pause
from noetl.engine.decide import resume as resume_execution
from noetl.engine.events import EXECUTION_REQUESTED, Event
from noetl.engine.execution_document import Document, interruption
from noetl.engine.forks import Fork
from noetl.engine.state import status_of
from noetl.engine.waits.signals import receive
from noetl.errors import ConfigError, StoreError
from noetl.local.control_socket import ControlServer
from noetl.local.home import Home
from noetl.ports import NO_LABELS, Catalog, LocalStore, LogChunk
from noetl.runtime.event_loop import SystemClock
from noetl.runtime.executions.after_commit import Watcher
from noetl.runtime.forks.create import begin_fork
from noetl.runtime.forks.points import Point
from noetl.runtime.make_orchestrator import make_orchestrator
from noetl.runtime.values.ownership import Events
from noetl.runtime.worker.executor import Executor, SlotUse
from noetl.runtime.worker.task_output import LogSender
from noetl.telemetry.trace_context import TraceParent
from noetl.types import JSON
from noetl.wiring.identifiers import new_execution_id
from noetl.wiring.keyring import make_keyring
from noetl.wiring.result_stores import make_results

MAX_LOGS = 64

LogWatcher = Callable[[Sequence[LogChunk]], None]


class Embedded:
    """One execution and its children on one log, with their own tools and slots.

    ``pool`` is the pool of all its commands, by default the id of the execution: what a
    killed run left in the same log stays untouched until ``noetl resume``.
    """

    def __init__(
        self,
        home: Home,
        store: LocalStore,
        folder: str | None,
        settings: Settings,
        *,
        execution_id: str | None = None,
        pool: str | None = None,
        playbooks: Sequence[str] = (),
        extensions: frozenset[str] = frozenset(),
        plugins: Plugins | None = None,
    ) -> None:
        plugins = plugins or Plugins()
        slots = settings[SLOTS]
        self.execution_id = execution_id or new_execution_id()
        self._folder = folder
        self._store = store
        results = make_results(home, plugins, settings)
        self._blobs = results.own
        folders = playbooks or ([folder] if folder is not None else [])
        paths = [Path(folder) for folder in folders]
        files = FileCatalog(paths, self._blobs, extensions, plugins.kinds)
        catalog: Catalog = files
        if home.catalog.is_file():
            catalog_rows = SqliteCatalogRows(home.catalog)
            catalog = RegisteredCatalog(
                catalog_rows, self._blobs, extensions, files, plugins.kinds
            )
        clock = SystemClock()
        policy = host_policy(settings, home.folder, "embedded")
        ceilings = ceilings_of(settings, "embedded")
        network = Network(policy.private)
        keys = make_keyring(home, plugins, network=network)
        self._tools = make_tools(
            slots,
            keys,
            host=policy,
            network=network,
            home=str(home.folder),
            plugins=plugins,
        )
        self.orchestrator = make_orchestrator(
            store,
            results,
            catalog,
            clock,
            keys,
            pool=pool or self.execution_id,
            ceilings=ceilings,
        )
        self.orchestrator.cache.pin(self.execution_id)
        owner = f"embedded-{os.getpid()}"
        self._executor = Executor(
            self.orchestrator.assignment,
            self._tools,
            clock,
            owner=owner,
            slots=slots,
            tool_time=ceilings.tool_time,
            logs=LogSender(self._store_logs),
        )
        self._task_logs = TaskLogFiles(home.task_logs)
        self._log_watchers: list[LogWatcher] = []
        self._document = Document()
        self._left = asyncio.Event()
        self._tasks: set[asyncio.Future[None]] = set()
        self._interrupted = False
        self.child_warnings: dict[str, None] = {}
        self._watchers: list[Watcher] = [self._document.note]
        self.orchestrator.watch(self._tell_watchers)

    @classmethod
    async def reopen(
        cls,
        home: Home,
        store: LocalStore,
        folder: str | None,
        settings: Settings,
        execution_id: str,
        *,
        playbooks: Sequence[str] = (),
        plugins: Plugins | None = None,
    ) -> Embedded:
        """Make the runtime of an execution that is in the log already. Its commands are
        in the pool of its root, which no other execution has called."""
        try:
            pool = await _find_root(store, execution_id)
        except BaseException:
            await store.close()
            raise
        return cls(
            home,
            store,
            folder,
            settings,
            execution_id=execution_id,
            pool=pool,
            playbooks=playbooks,
            plugins=plugins,
        )

    async def start(
        self,
        loaded: Loaded,
        source: bytes,
        workload: dict[str, JSON],
        limit: float | None = None,
        labels: Mapping[str, str] = NO_LABELS,
        trace: TraceParent | None = None,
    ) -> bool:
        """Accept the execution; it is in the log when this returns.

        ``limit`` is the maximum duration in seconds, ``trace`` the span of the caller.
        Returns False if the inputs do
        not fit, or the keychain cannot be resolved: the failure is recorded and nothing
        runs.
        """
        assert loaded.playbook is not None
        await self._tidy()
        about = await pin(loaded, source, self._folder, self._blobs)
        merged = merge_inputs(loaded.playbook, workload)
        request = Request(
            self.execution_id,
            about,
            merged,
            timeout=limit,
            trace_id=None if trace is None else trace.trace_id,
            trace_parent=None if trace is None else trace.span_id,
            labels=dict(labels),
        )
        refusal = await self.orchestrator.start(loaded.playbook, request)
        if refusal is not None:
            self._document.take(await self._store.read(self.execution_id))
        return refusal is None

    async def fork(
        self, playbook: Playbook, fork: Fork, point: Point, log: Events
    ) -> bool:
        """Accept a fork of an execution whose log is ``log``; otherwise like ``start``.

        Raises ``ConfigError`` for secrets that the origin does not have any more.
        """
        await self._tidy()
        refusal = await begin_fork(self.orchestrator, playbook, fork, point, log)
        if refusal is not None:
            self._document.take(await self._store.read(self.execution_id))
        else:
            await self.resume_from_log()
        return refusal is None

    async def _tidy(self) -> None:
        """Delete secrets of executions that ended while a killed process stopped."""
        keys = self.orchestrator.keys
        for execution_id in await keys.kept():
            if execution_id in await self._store.resolve(execution_id):
                summary = await self._store.summary(execution_id)
                if summary.finished_at is not None:
                    await keys.drop(execution_id)

    async def refuse(self, loaded: Loaded, source: bytes, name: str) -> None:
        """Record that the playbook is not valid, with the reason (S-42)."""
        about = await pin(loaded, source, self._folder, self._blobs)
        about |= {"name": name, "path": None, "version": None}
        request = Request(self.execution_id, about, {})
        self._document.take(
            await self.orchestrator.starter.reject(request, loaded.refusal(name))
        )

    async def resume_from_log(self, *, resume: bool = True) -> None:
        """Load the execution as an earlier process left it, and continue it."""
        state = await self.orchestrator.load(self.execution_id)
        async for events in self._store.pages(self.execution_id):
            self._document.note(events)
        if resume and state.status == "paused":
            await self.orchestrator.decide(self.execution_id, resume_execution)

    def history(self) -> AsyncIterator[Sequence[Event]]:
        """Yield the events of the execution, a page at a time."""
        return self._store.pages(self.execution_id)

    async def finish(self) -> None:
        """Work until the execution and its children have ended."""
        control = ControlServer(self._store.path, self._steer)
        try:
            await control.open()
            self._store.publish_address(str(control.path))
        except OSError:  # no sockets here: other terminals cannot control it
            await control.close()
        try:
            await self._work()
        finally:
            await control.close()

    async def _work(self) -> None:
        working = [
            asyncio.create_task(self._executor.serve()),
            asyncio.create_task(self.orchestrator.serve()),
        ]
        ends = [
            asyncio.create_task(self.orchestrator.finish()),
            asyncio.create_task(self._left.wait()),
        ]
        await asyncio.wait({*working, *ends}, return_when="FIRST_COMPLETED")
        for task in (*working, *ends):
            task.cancel()
        for task in (*working, *ends):
            with contextlib.suppress(asyncio.CancelledError):
                await task  # raise the error of a background task that ended early

    def document(self) -> dict[str, JSON]:
        if self.execution_id not in self.orchestrator.cache:
            return self._document.as_json()
        return self._document.as_json(self.orchestrator.cache[self.execution_id].state)

    def interruption(self) -> dict[str, JSON]:
        """Describe the execution as one that this process leaves."""
        return interruption(self.execution_id, self._document.last)

    def slot_use(self) -> SlotUse:
        """Return which commands the slots of this process run."""
        return self._executor.use

    def watch(self, watcher: Watcher) -> None:
        """Call the watcher with each commit of the execution, not of its children."""
        self._watchers.append(watcher)

    def _tell_watchers(self, events: Sequence[Event]) -> None:
        if events[0].execution_id == self.execution_id:
            for watcher in self._watchers:
                watcher(events)
        elif events[0].name == EXECUTION_REQUESTED.name:
            self._note_warnings(events)

    def _note_warnings(self, events: Sequence[Event]) -> None:
        """Keep the warnings about the inputs of a child, each of them once."""
        path = events[0].payload["playbook"].get("path")
        for event in events[:2]:
            for warning in event.payload.get("warnings", ()):
                if len(self.child_warnings) < MAX_WARNINGS:
                    self.child_warnings[f"playbook '{path}': {warning}"] = None

    def watch_logs(self, watcher: LogWatcher) -> None:
        """Call the watcher with what tasks of the execution print, once stored."""
        self._log_watchers.append(watcher)

    async def _store_logs(self, chunks: Sequence[LogChunk]) -> None:
        await self._task_logs.append(chunks)
        for watcher in self._log_watchers:
            mine = [c for c in chunks if c.source.execution_id == self.execution_id]
            watcher(mine)

    def interrupt(self) -> bool:
        """Pause at the first call: running tasks finish. Leave at once at the
        second."""
        again, self._interrupted = self._interrupted, True
        if again:
            self.leave()
        else:
            self.spawn(self.pause())
        return again

    def leave(self) -> None:
        """Stop this process; ``resume`` continues from the log."""
        self._left.set()

    async def pause(self) -> None:
        """Pause the execution and its children; running tasks finish first."""
        try:
            while running := self.orchestrator.cache.running():
                for execution_id in running:
                    if execution_id in self.orchestrator.cache:
                        await self.orchestrator.decide(execution_id, pause)
            await self._executor.drain()
        finally:
            self._left.set()

    async def _steer(self, request: Mapping[str, JSON]) -> JSON:
        """Apply a request from another terminal. Raises ``ConfigError``."""
        execution_id, orchestrator = request["execution_id"], self.orchestrator
        if execution_id not in orchestrator.cache:
            raise ConfigError(f"{execution_id} is not running here")
        match request["do"]:
            case "look":
                pass
            case "cancel":
                await orchestrator.cancel(execution_id)
            case "pause":
                self.interrupt()
            case "signal":
                decision = partial(
                    receive, name=str(request["name"]), data=request["data"]
                )
                await orchestrator.decide(execution_id, decision)
            case other:
                raise ConfigError(f"there is no order '{other}'")
        return status_of(orchestrator.cache[execution_id].state)

    def spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        for tool in self._tools.values():
            await tool.close()
        self._task_logs.close()
        await self._store.close()


async def _find_root(store: LocalStore, execution_id: str) -> str:
    while True:
        [first] = await store.read(execution_id, limit=1)
        parent = first.payload.get("parent")
        if parent is None:
            return execution_id
        execution_id = parent["execution_id"]


def open_free_log(home: Home) -> LocalStore:
    """Open the first log that no other process writes and that has no open execution.

    An execution that was killed or paused must stay accessible while this one runs.
    """
    home.make()
    for number in range(1, MAX_LOGS + 1):
        try:
            store = SqliteStore.open(home.log(number))
        except StoreError as error:
            if error.kind != "store.locked":
                raise
            continue
        if not store.has_open():
            return store
        store.close_now()
    raise ConfigError(
        f"{MAX_LOGS} executions under {home.folder} are not over: they run, are paused "
        "or were killed; see noetl list, and end some with noetl resume or noetl cancel"
    )
