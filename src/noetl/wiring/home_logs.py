"""The history that a server shows: its own log, and those of ``noetl run``."""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from pathlib import Path

from noetl.adapters.stores.sqlite import SqliteStore
from noetl.adapters.stores.sqlite.connection import find_holder
from noetl.adapters.stores.task_log_files import TaskLogFiles
from noetl.engine.events import Event
from noetl.engine.state import ExecutionStatus
from noetl.errors import StoreError
from noetl.local.home import Home
from noetl.ports import ExecutionHistory, Parked, Snapshot, Store, Summary
from noetl.ports.task_logs import ALL, LogChunk, LogFilter, StoredChunk, TaskLogs
from noetl.ports.transition import NO_LABELS
from noetl.types import JSON

log = logging.getLogger("noetl.server")

LISTED_S = 1.0
"""Seconds for which the list of logs is kept."""
MAX_LOCAL = 10_000
"""Executions whose log is remembered."""
_OPEN = frozenset({"running", "waiting"})


class HomeHistory:
    """Reads executions of a server, and those of ``noetl run`` in the logs of its home.

    Other logs are only read: the process of a run is the only writer of its log. They
    belong to the owner of the home, and are not shown (``is_hidden``) as soon as the
    server has other accounts.
    """

    def __init__(
        self,
        own: Store,
        home: Home,
        is_hidden: Callable[[], bool],
        own_log: Path | None,
    ) -> None:
        self._own = own
        self._home = home
        self._is_hidden = is_hidden
        self._own_log = own_log
        self._logs: dict[Path, SqliteStore] = {}
        self._listed_at = float("-inf")
        self._local: OrderedDict[str, SqliteStore] = OrderedDict()

    @property
    def shared(self) -> bool:
        """Whether other processes may write what is read here."""
        return self._own.shared or not self._is_hidden()

    def is_local(self, execution_id: str) -> bool:
        """Return whether an execution that was read is one of ``noetl run``."""
        return execution_id in self._local and not self._is_hidden()

    def shows(self, execution_id: str) -> bool:
        """Return whether an execution that was read may still be read: those of
        ``noetl run`` may not, once the server has other accounts."""
        return execution_id not in self._local or not self._is_hidden()

    def describe(self, summary: Summary) -> dict[str, JSON]:
        """Return what a line says about an execution of ``noetl run``: whether its
        process is gone before its end."""
        if not self.is_local(summary.execution_id):
            return {}
        store = self._local[summary.execution_id]
        gone = summary.status in _OPEN and find_holder(store.path) is None
        return {"local": True, "interrupted": gone}

    # -- logs --------------------------------------------------------------------

    async def read(
        self, execution_id: str, *, after: int = 0, limit: int | None = None
    ) -> Sequence[Event]:
        return await self._of(execution_id).read(execution_id, after=after, limit=limit)

    def pages(
        self, execution_id: str, *, after: int = 0, size: int = 2_000
    ) -> AsyncIterator[Sequence[Event]]:
        return self._of(execution_id).pages(execution_id, after=after, size=size)

    async def length(self, execution_id: str) -> int:
        return await self._of(execution_id).length(execution_id)

    async def snapshot(self, execution_id: str) -> Snapshot | None:
        return await self._of(execution_id).snapshot(execution_id)

    async def tally(
        self, execution_id: str, version: int, *, at: int | None = None
    ) -> Snapshot | None:
        return await self._own.tally(execution_id, version, at=at)

    async def keep_tally(
        self, execution_id: str, version: int, tally: Snapshot
    ) -> None:
        """Keep a tally of an execution of the server; others are not written."""
        await self._own.keep_tally(execution_id, version, tally)

    # -- listing -----------------------------------------------------------------

    async def find(
        self,
        *,
        status: ExecutionStatus | None = None,
        before: str | None = None,
        limit: int = 100,
        labels: Mapping[str, str] = NO_LABELS,
    ) -> Sequence[Summary]:
        found = [
            *await self._own.find(
                status=status, before=before, limit=limit, labels=labels
            )
        ]
        others = await self._others()
        for store in others:
            some = await store.find(
                status=status, before=before, limit=limit, labels=labels
            )
            for each in some:
                self._note(each.execution_id, store)
            found += some
        if others:
            found.sort(key=lambda each: each.execution_id, reverse=True)
        return found[:limit]

    async def summary(self, execution_id: str) -> Summary:
        try:
            return await self._of(execution_id).summary(execution_id)
        except StoreError as error:
            if error.kind != "store.missing":
                raise
            self._local.pop(execution_id, None)
            for store in await self._others():
                if await store.length(execution_id):
                    self._note(execution_id, store)
                    return await store.summary(execution_id)
            raise

    async def resolve(self, part: str, *, limit: int = 10) -> Sequence[str]:
        found = [*await self._own.resolve(part, limit=limit)]
        for store in await self._others():
            found += await store.resolve(part, limit=limit)
        return found[:limit]

    async def find_request(self, request_key: str) -> str | None:
        return await self._own.find_request(request_key)

    async def set_status(self, summary: Summary) -> None:
        await self._own.set_status(summary)

    async def count_family(self, execution_id: str, *, limit: int) -> int:
        return await self._own.count_family(execution_id, limit=limit)

    async def parked(self, *, limit: int) -> Sequence[Parked]:
        """Return executions of the server that wait: others take no answers here."""
        return await self._own.parked(limit=limit)

    async def close(self) -> None:
        for store in self._logs.values():
            await store.close()
        self._logs.clear()

    # -- which log ---------------------------------------------------------------

    def _of(self, execution_id: str) -> ExecutionHistory:
        if self.is_local(execution_id):
            return self._local[execution_id]
        return self._own

    def _note(self, execution_id: str, store: SqliteStore) -> None:
        self._local[execution_id] = store
        self._local.move_to_end(execution_id)
        if len(self._local) > MAX_LOCAL:
            self._local.popitem(last=False)

    async def _others(self) -> list[SqliteStore]:
        """Return the other logs of the home, opened for reading."""
        if self._is_hidden():
            return []
        now = time.monotonic()
        if now - self._listed_at >= LISTED_S:
            self._listed_at = now
            await self._list()
        return [*self._logs.values()]

    async def _list(self) -> None:
        paths = [each for each in self._home.logs() if each != self._own_log]
        for gone in self._logs.keys() - set(paths):
            store = self._logs.pop(gone)
            self._local = OrderedDict(
                each for each in self._local.items() if each[1] is not store
            )
            await store.close()
        for path in paths:
            if path not in self._logs:
                try:
                    self._logs[path] = SqliteStore.open(
                        path, readonly=True, threaded=True
                    )
                except StoreError as error:  # it is just being made, or too new
                    log.debug("a log is not shown: %s", error)


class HomeTaskLogs:
    """What tasks printed: of executions of a server, and of ``noetl run``."""

    def __init__(self, own: TaskLogs, history: HomeHistory, home: Home) -> None:
        self._own = own
        self._history = history
        self._files = TaskLogFiles(home.task_logs)

    async def read(
        self,
        execution_id: str,
        *,
        start: int = 0,
        limit: int = 16,
        only: LogFilter = ALL,
    ) -> tuple[Sequence[StoredChunk], int]:
        is_local = self._history.is_local(execution_id)
        logs: TaskLogs = self._files if is_local else self._own
        return await logs.read(execution_id, start=start, limit=limit, only=only)

    async def append(self, chunks: Sequence[LogChunk]) -> None:
        await self._own.append(chunks)

    async def remove(self, execution_ids: Collection[str]) -> None:
        await self._own.remove(execution_ids)
