"""Removal of stored values that no log names any more.

A value is put again whenever an execution makes it, and inherited only by executions of
the same family and by forks, which keep the log that names it. So of the executions
that began after a value was last put, none needs it: only the logs of older ones are
read.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Protocol

from noetl.engine.times import seconds_of
from noetl.errors import StoreError
from noetl.ports import Blobs, CatalogRows, LogHead
from noetl.ports.log_maintenance import RecordReader
from noetl.ports.store import LogReader
from noetl.service.executions.results import keys_in

GRACE_S = 24 * 3600.0
"""Seconds for which a value stays in any case: its task may still be running."""
SKEW_S = 3600.0
"""Seconds by which the clocks of servers may differ."""
MAX_KEYS = 50_000
"""Values that are looked for in the logs at the same time."""
PAGE = 500


class Log(LogReader, RecordReader, Protocol):
    """A store whose logs name values."""


Logs = Callable[[], AsyncIterator[Log]]


class UnnamedValues:
    """``logs`` are all logs that may name the values of this store."""

    def __init__(self, blobs: Blobs, logs: Logs, catalog: CatalogRows) -> None:
        self._blobs = blobs
        self._logs = logs
        self._catalog = catalog

    async def __call__(self, before: float, now: float) -> int:
        """Remove values put before a time that no log names; return how many.

        Nothing is removed from a store that cannot be listed, or that others use.
        """
        before = min(before, now - GRACE_S)
        removed = 0
        try:
            if await self._blobs.others():
                return 0
            keys: set[str] = set()
            async for blob in self._blobs.each():
                if blob.at < before:
                    keys.add(blob.key)
                if len(keys) == MAX_KEYS:
                    removed += await self._remove(keys, before)
                    keys.clear()
        except StoreError as error:
            if error.kind != "store.unlisted":
                raise
            return 0
        return removed + await self._remove(keys, before)

    async def _remove(self, keys: set[str], before: float) -> int:
        if keys:
            keys -= await sources_in(self._catalog)
        async for log in self._logs():
            if not keys:
                break
            await self._spare_named(log, keys, before)
        return sum([await self._blobs.remove(key, before) for key in keys])

    async def _spare_named(self, log: Log, keys: set[str], before: float) -> None:
        """Spare what executions name that began before the time."""
        after = 0
        while heads := await log.heads(after=after):
            for head in heads:
                if not keys or _began(head) >= before + SKEW_S:
                    return
                name = head.summary.execution_id
                async for events in log.pages(name, size=PAGE):
                    for event in events:
                        keys.difference_update(keys_in(event))
            after = heads[-1].number


async def sources_in(catalog: CatalogRows) -> set[str]:
    """Return the keys of the texts of all registered playbooks."""
    found: set[str] = set()
    after = ""
    while page := await catalog.latest(after=after):
        for each in page:
            versions = await catalog.versions(each.path, limit=1 << 30)
            found.update(version.source for version in versions)
        after = page[-1].path
    return found


def _began(head: LogHead) -> float:
    return seconds_of(head.summary.started_at)
