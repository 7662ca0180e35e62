"""The removal of old executions by a server, over its backend."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

from noetl.adapters.analytics.duckdb_copy import require_duckdb
from noetl.adapters.stores.sqlite import SqliteStore
from noetl.errors import StoreError
from noetl.local.home import Home
from noetl.ports import Clock
from noetl.service.retention.sweeper import Sweeper
from noetl.service.retention.values import Log, UnnamedValues
from noetl.wiring.backend import Backend
from noetl.wiring.server_options import Options


def make_sweeper(
    home: Home, options: Options, backend: Backend, clock: Clock, owner: str
) -> Sweeper:
    """Make the sweeper of a server. Raises ``ConfigError``."""
    own = None if options.database is not None else home.server_log

    async def logs() -> AsyncIterator[Log]:
        yield backend.store
        async for each in other_logs(home, own):
            yield each

    archive = None
    if options.archive is not None:
        from noetl.adapters.archive.places import open_place
        from noetl.service.retention.archive import ParquetArchive

        require_duckdb()
        archive = ParquetArchive(
            open_place(options.archive),
            backend.store,
            backend.retention,
            backend.task_logs,
            backend.results.own,
            clock,
            home.folder,
        )
    return Sweeper(
        backend.retention,
        backend.task_logs,
        clock,
        owner,
        age=options.retention,
        archive=archive,
        audit=backend.audit,
        audit_age=options.audit_retention,
        values=UnnamedValues(backend.results.own, logs, backend.catalog_rows),
    )


async def other_logs(home: Home, own: Path | None) -> AsyncIterator[Log]:
    """Open the other logs of a home for reading, one after another: their executions
    name values of the same stores."""
    for path in home.logs():
        if path == own:
            continue
        try:
            store = SqliteStore.open(path, readonly=True, threaded=True)
        except StoreError as error:
            if error.kind == "store.missing":  # another process is creating it
                continue
            raise
        try:
            yield store
        finally:
            await store.close()
