"""Server and worker in one process on SQLite: what ``noetl run`` uses."""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import time
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from functools import partial
from pathlib import Path

from noetl.adapters.catalogs.files import FileCatalog, pin
from noetl.adapters.catalogs.registered import RegisteredCatalog
from noetl.adapters.catalogs.sqlite import SqliteShelf
from noetl.adapters.network import Network
from noetl.adapters.plugins.enabled import Plugins
from noetl.adapters.secrets.cipher import Cipher
from noetl.adapters.secrets.registry import Providers
from noetl.adapters.secrets.sealed import SealedFiles
from noetl.adapters.secrets.stored import StoredKeychain
from noetl.adapters.stores.sqlite import SqliteStore
from noetl.adapters.tools.registry import make_tools
from noetl.config import SLOTS, host_policy, read_settings
from noetl.control import ControlServer
from noetl.dsl.load import Loaded
from noetl.dsl.merge import deep_merge
from noetl.dsl.model import Playbook
from noetl.engine.decide import Request, pause
from noetl.engine.decide import resume as go_on
from noetl.engine.document import Document
from noetl.engine.events import Event
from noetl.engine.forking import Fork
from noetl.engine.runs import status_of
from noetl.engine.signals import receive
from noetl.errors import ConfigError, StoreError
from noetl.home import Home
from noetl.ports import Catalog
from noetl.results import make_results
from noetl.runtime.clock import SystemClock
from noetl.runtime.executor import Executor
from noetl.runtime.forks import begin_fork
from noetl.runtime.keychain import Keyring
from noetl.runtime.loading import Events
from noetl.runtime.orchestrator import Orchestrator, Watcher
from noetl.runtime.origins import Point
from noetl.types import JSON

MAX_LOGS = 64


def new_mark() -> int:
    """What tells a server from others in the names that it gives: twelve bits."""
    return secrets.randbits(12)


def new_execution_id(mark: int | None = None) -> str:
    """A UUID of version 7: unique, and in the order of time. The first twelve of its
    random bits may be the ``mark`` of a server."""
    milliseconds = time.time_ns() // 1_000_000
    first = new_mark() if mark is None else mark
    bits = milliseconds << 80 | 0x7 << 76 | first << 64 | secrets.randbits(64)
    bits = bits & ~(0x3 << 62) | 0x2 << 62
    text = f"{bits:032x}"
    parts = (text[:8], text[8:12], text[12:16], text[16:20], text[20:])
    return "-".join(parts)


class Embedded:
    """One execution and its children on one log, with their own tools and slots.

    Their pool is their own, too: what a killed run left in the same log stays
    untouched until somebody resumes it.
    """

    def __init__(
        self,
        home: Home,
        store: SqliteStore,
        folder: str | None,
        *,
        execution_id: str | None = None,
        playbooks: Sequence[str] = (),
        extensions: frozenset[str] = frozenset(),
        slots: int | None = None,
        plugins: Plugins | None = None,
    ) -> None:
        plugins = plugins or Plugins()
        slots = slots or SLOTS.default()
        self.execution_id = execution_id or new_execution_id()
        self._folder = folder
        self._store = store
        results = make_results(home, plugins)
        self._blobs = results.own
        folders = playbooks or ([folder] if folder is not None else [])
        paths = [Path(folder) for folder in folders]
        files = FileCatalog(paths, self._blobs, extensions, plugins.kinds)
        catalog: Catalog = files
        if home.catalog.is_file():
            shelf = SqliteShelf(home.catalog)
            catalog = RegisteredCatalog(
                shelf, self._blobs, extensions, files, plugins.kinds
            )
        clock = SystemClock()
        policy = host_policy(read_settings(), home.folder, "embedded")
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
        self.orchestrator = Orchestrator(
            store, results, catalog, clock, keys, pool=self.execution_id
        )
        self.orchestrator.kept.add(self.execution_id)
        owner = f"embedded-{os.getpid()}"
        self._executor = Executor(
            self.orchestrator, self._tools, clock, owner=owner, slots=slots
        )
        self._document = Document()
        self._left = asyncio.Event()
        self._tasks: set[asyncio.Future[None]] = set()
        self._interrupted = False
        self.watch(self._document.note)

    async def start(
        self,
        loaded: Loaded,
        source: bytes,
        workload: dict[str, JSON],
        limit: float | None = None,
    ) -> bool:
        """Accept the execution; it is in the log when this returns.

        ``limit`` is how many seconds it may take. Whether it was accepted: a keychain
        that cannot be resolved is on record, and nothing else will be.
        """
        assert loaded.playbook is not None
        await self._tidy()
        about = await pin(loaded, source, self._folder, self._blobs)
        merged = deep_merge(loaded.playbook.workload, workload)
        request = Request(self.execution_id, about, merged, timeout=limit)
        refusal = await self.orchestrator.start(loaded.playbook, request)
        if refusal is not None:
            self._document.take(await self._store.read(self.execution_id))
        return refusal is None

    async def fork(
        self, playbook: Playbook, fork: Fork, point: Point, log: Events
    ) -> bool:
        """Accept a fork of an execution whose log is ``log``; as ``start`` otherwise.

        Raises ``ConfigError`` for secrets that the origin does not have any more.
        """
        await self._tidy()
        refusal = await begin_fork(self.orchestrator, playbook, fork, point, log)
        if refusal is not None:
            self._document.take(await self._store.read(self.execution_id))
        else:
            await self.take_up()
        return refusal is None

    async def _tidy(self) -> None:
        """Who was killed in the last moment of an execution has left its secrets."""
        keys = self.orchestrator.keys
        for execution_id in await keys.kept():
            if execution_id in await self._store.resolve(execution_id):
                summary = await self._store.summary(execution_id)
                if summary.finished_at is not None:
                    await keys.drop(execution_id)

    async def refuse(self, loaded: Loaded, source: bytes, name: str) -> None:
        """Put on record that the playbook is not valid, and why (S-42)."""
        about = await pin(loaded, source, self._folder, self._blobs)
        about |= {"name": name, "path": None, "version": None}
        request = Request(self.execution_id, about, {})
        self._document.take(
            await self.orchestrator.reject(request, loaded.refusal(name))
        )

    async def take_up(self, *, resume: bool = True) -> None:
        """Load the execution as an earlier process left it, and let it go on."""
        self.orchestrator.planner.pool = await self._root()
        state = await self.orchestrator.load(self.execution_id)
        async for events in self._store.pages(self.execution_id):
            self._document.note(events)
        if resume and state.status == "paused":
            await self.orchestrator.decide(self.execution_id, go_on)

    def history(self) -> AsyncIterator[Sequence[Event]]:
        """What is in the log of the execution, a page at a time."""
        return self._store.pages(self.execution_id)

    async def _root(self) -> str:
        """Who was called by nobody: a family has one pool."""
        execution_id = self.execution_id
        while True:
            [first] = await self._store.read(execution_id, limit=1)
            parent = first.payload.get("parent")
            if parent is None:
                return execution_id
            execution_id = parent["execution_id"]

    async def finish(self) -> None:
        """Work until the execution and its children have ended."""
        control = ControlServer(self._store.path, self._steer)
        try:
            await control.open()
            self._store.announce(str(control.path))
        except OSError:  # a system or a disk without sockets: nobody can steer it
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
                await task  # those that never return by themselves say why they did

    def document(self) -> dict[str, JSON]:
        if not self.orchestrator.is_loaded(self.execution_id):
            return self._document.as_json()
        return self._document.as_json(self.orchestrator.state(self.execution_id))

    def watch(self, watcher: Watcher) -> None:
        """Call this with what is committed of the execution; not of its children."""

        def tell(events: Sequence[Event]) -> None:
            if events[0].execution_id == self.execution_id:
                watcher(events)

        self.orchestrator.watch(tell)

    def interrupt(self) -> bool:
        """The first time pause cleanly: running tasks finish. Then leave at once."""
        again, self._interrupted = self._interrupted, True
        if again:
            self.leave()
        else:
            self.spawn(self.pause())
        return again

    def leave(self) -> None:
        """Stop here; what was begun is in the log, and resume goes on with it."""
        self._left.set()

    async def pause(self) -> None:
        """Pause the execution and its children; what runs is finished first."""
        try:
            while running := self.orchestrator.running():
                for execution_id in running:
                    if self.orchestrator.is_loaded(execution_id):
                        await self.orchestrator.decide(execution_id, pause)
            await self._executor.drain()
        finally:
            self._left.set()

    async def _steer(self, request: Mapping[str, JSON]) -> JSON:
        """What somebody asks from another terminal; raises ``ConfigError``."""
        execution_id, orchestrator = request["execution_id"], self.orchestrator
        if not orchestrator.is_loaded(execution_id):
            raise ConfigError(f"{execution_id} is not running here")
        match request["do"]:
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
        return status_of(orchestrator.state(execution_id))

    def spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        for tool in self._tools.values():
            await tool.close()
        await self._store.close()


def make_keyring(
    home: Home,
    plugins: Plugins,
    *,
    declared_only: bool = False,
    network: Network | None = None,
) -> Keyring:
    cipher = Cipher(home.key)
    stored = StoredKeychain(home.keychain, cipher)
    providers = Providers(
        stored, plugins=plugins.secrets, declared_only=declared_only, network=network
    )
    return Keyring(providers, SealedFiles(home.sealed, cipher))


def open_free_log(home: Home) -> SqliteStore:
    """The first log that no other process writes, and in which nothing is open.

    What a killed or paused run has left must not be out of reach while this one runs.
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
