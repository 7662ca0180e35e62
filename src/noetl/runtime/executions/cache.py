"""The cache of loaded executions: load, pin, evict."""

from __future__ import annotations

import asyncio
from typing import NoReturn

from noetl.engine.evolve import replay
from noetl.engine.reports.accept import OutOfOrder
from noetl.engine.secrets.handles import Secrets
from noetl.engine.state import status_of
from noetl.errors import StoreError
from noetl.ports import Catalog, Clock, Store
from noetl.runtime.executions.loaded import LoadedExecution
from noetl.runtime.executions.snapshots import fold_with_snapshot
from noetl.runtime.keychain import Keyring

KEEP_LOADED_FOR_S = 60.0
"""An execution that was not used for this time may be evicted."""

SHORT_LOG = 200
"""Events below which a log has no snapshot, and is read at once."""

MAX_CACHED = 10_000
"""Above this number idle executions are evicted at once."""


class ExecutionCache(dict[str, LoadedExecution]):
    """Executions in memory by their ids. Pinned ones stay when they have finished.

    Raises ``OutOfOrder`` for an execution that is not loaded.
    """

    def __init__(
        self, store: Store, catalog: Catalog, keys: Keyring, clock: Clock
    ) -> None:
        super().__init__()
        self._store = store
        self._catalog = catalog
        self._keys = keys
        self._clock = clock
        self._pinned: set[str] = set()
        self._loading: dict[str, asyncio.Lock] = {}

    def __missing__(self, execution_id: str) -> NoReturn:
        raise OutOfOrder(f"execution {execution_id} is not open here")

    def __repr__(self) -> str:
        return f"ExecutionCache({len(self)} executions)"  # their data may be secret

    def is_at(self, execution_id: str, seq: int | None) -> bool:
        """Return whether it is loaded up to ``seq`` and has no undecided inputs."""
        loaded = self.get(execution_id)
        return loaded is not None and not loaded.busy and loaded.state.seq == seq

    def running(self) -> list[str]:
        """Return the loaded executions that may still start a step."""
        return [
            execution_id
            for execution_id, loaded in self.items()
            if loaded.state.status == "running" and not loaded.state.finished
        ]

    def all_finished(self) -> bool:
        return all(loaded.state.finished for loaded in self.values())

    async def load(self, execution_id: str) -> LoadedExecution | None:
        """Read an execution from the store; None if it is loaded, or another caller
        loads it first. Raises ``StoreError`` (``store.missing``).
        """
        lock = self._loading.setdefault(execution_id, asyncio.Lock())
        try:
            async with lock:
                if execution_id in self:
                    return None
                loaded = await self._read(execution_id)
                loaded.used = self._clock.now()
                self[execution_id] = loaded
                return loaded
        finally:
            self._loading.pop(execution_id, None)

    def pin(self, execution_id: str) -> None:
        """Keep this execution in memory after its end."""
        self._pinned.add(execution_id)

    def evict(self, execution_id: str) -> None:
        """Drop an execution, unless it is pinned."""
        if execution_id not in self._pinned:
            self.pop(execution_id, None)

    def drop(self, execution_id: str) -> None:
        """Drop an execution, pinned or not: the next access reads it again."""
        self.pop(execution_id, None)

    def evict_idle(self) -> None:
        """Evict the executions that were not used for ``KEEP_LOADED_FOR_S``."""
        for execution_id in self._idle():
            self.evict(execution_id)

    def _idle(self) -> list[str]:
        """With a store of its own, tools may run in this process, and ask whether their
        execution is cancelled: then only waiting executions can be evicted."""
        oldest, shared = self._clock.now() - KEEP_LOADED_FOR_S, self._store.shared
        is_full = len(self) > MAX_CACHED
        return [
            execution_id
            for execution_id, loaded in self.items()
            if not loaded.busy
            and (loaded.used < oldest or is_full)
            and (
                loaded.state.finished or shared or status_of(loaded.state) == "waiting"
            )
        ]

    async def _read(self, execution_id: str) -> LoadedExecution:
        first = await self._store.read(execution_id, limit=SHORT_LOG)
        if not first:
            message = f"there is no execution {execution_id}"
            raise StoreError(message, "store.missing")
        about = first[0].payload["playbook"]
        playbook = await self._catalog.pinned(about)
        if len(first) < SHORT_LOG:  # the whole log: one statement
            state, saved = replay(first), 0
        else:
            state, saved = await fold_with_snapshot(self._store, execution_id)
        secrets = Secrets()
        if not state.finished:
            secrets = await self._keys.open(execution_id, playbook.keychain, about)
        return LoadedExecution.of(playbook, state, about, secrets, saved)
