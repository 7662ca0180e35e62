"""The engine in this process, on one SQLite log, for any number of executions."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path

from noetl.adapters.blobs.files import FileBlobs
from noetl.adapters.catalogs.files import FileCatalog, pin
from noetl.adapters.secrets.memory import MemorySealed
from noetl.adapters.stores.sqlite import SqliteStore
from noetl.adapters.tools import BUILTIN
from noetl.adapters.tools.registry import make_tools
from noetl.bench.playbooks import WIDTH
from noetl.dialects import load
from noetl.dsl.model import Playbook
from noetl.embedded import new_execution_id
from noetl.engine.decide import Request
from noetl.engine.events import Event
from noetl.ports import Tool
from noetl.runtime.clock import SystemClock
from noetl.runtime.executor import Executor
from noetl.runtime.keychain import Keyring
from noetl.runtime.orchestrator import Orchestrator
from noetl.runtime.results import Results
from noetl.runtime.tasks import end_tasks
from noetl.types import JSON

POOL = "bench"


class Host:
    """Durable as ``noetl run`` is: what it answers is on the disk."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._blobs = FileBlobs(str(folder / "blobs"))
        self._store = SqliteStore.open(folder / "log.db")
        catalog = FileCatalog([folder], self._blobs, frozenset(), BUILTIN)
        keys, clock = Keyring({}, MemorySealed()), SystemClock()
        self._orchestrator = Orchestrator(
            self._store, Results(self._blobs), catalog, clock, keys, pool=POOL
        )
        self._tools: Mapping[str, Tool] = make_tools(WIDTH, keys)
        self._executor = Executor(
            self._orchestrator, self._tools, clock, owner=POOL, slots=WIDTH
        )
        self._playbooks: dict[str, tuple[Playbook, dict[str, JSON]]] = {}
        self._ends: dict[str, asyncio.Future[None]] = {}
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self, texts: Mapping[str, str]) -> None:
        for name, text in texts.items():
            loaded = load(text, BUILTIN)
            assert loaded.playbook is not None, loaded.diagnostics
            about = await pin(loaded, text.encode(), None, self._blobs)
            self._playbooks[name] = loaded.playbook, about
        self._orchestrator.watch(self._note)
        for work in (self._executor.serve(), self._orchestrator.serve()):
            self._tasks.append(asyncio.create_task(work))

    async def execute(self, name: str, n: int) -> JSON:
        """Run a playbook to its end; its result."""
        playbook, about = self._playbooks[name]
        execution_id = new_execution_id()
        end = asyncio.get_running_loop().create_future()
        self._ends[execution_id] = end
        request = Request(execution_id, about, {**playbook.workload, "n": n})
        await self._orchestrator.start(playbook, request)
        await end
        result = self._orchestrator.state(execution_id).result
        self._orchestrator.forget(execution_id)
        return result

    async def close(self) -> None:
        await end_tasks(self._tasks)
        for tool in self._tools.values():
            await tool.close()
        await self._store.close()

    def _note(self, events: Sequence[Event]) -> None:
        if events[-1].name == "playbook.processed":
            self._ends.pop(events[-1].execution_id).set_result(None)
