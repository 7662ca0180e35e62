"""Kills a process that removes old executions at each of its steps, one after another.

    python killed_sweep.py STORE FOLDER

``STORE`` is a file or the address of a PostgreSQL. Each child is killed one step later
than the one before, and continues what the last one left; the last one is not killed.
Writes a line of JSON after each: what is in the store, and what is in the archive.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from memory_blobs import MemoryBlobs
from memory_task_logs import MemoryTaskLogs

from noetl.adapters.archive.manifest import each_manifest
from noetl.adapters.archive.places import FolderPlace
from noetl.adapters.stores.sqlite import SqliteStore
from noetl.service.retention.archive import ParquetArchive
from noetl.service.retention.archived import ArchiveReader
from noetl.service.retention.sweeper import Sweeper

NOW = 1_800_000_000.0
STEPS = ("put", "put_file", "plan", "carry_out")


class Mortal:
    """Passes calls on; the process is killed before one of them, or after a removal."""

    def __init__(self, inner: Any, kill: Callable[[], None]) -> None:
        self._inner, self._kill = inner, kill

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._inner, name)
        return self._step(found) if name in STEPS else found

    def _step(self, call: Callable[..., Awaitable[Any]]) -> Callable[..., Any]:
        async def step(*given: Any) -> Any:
            self._kill()
            answer = await call(*given)
            if call.__name__ == "carry_out":
                self._kill()
            return answer

        return step


class Watch:
    def __init__(self, now: float) -> None:
        self._now = now

    def now(self) -> float:
        return self._now

    async def sleep(self, seconds: float) -> None:
        """Do not rest."""


async def open_store(where: str) -> tuple[Any, Any, Callable[[], Awaitable[None]]]:
    if not where.startswith("postgresql:"):
        file = SqliteStore.open(where)
        return file, file.retention, file.close
    from noetl.adapters.postgres import Postgres
    from noetl.adapters.stores.postgres import PostgresStore
    from noetl.adapters.stores.postgres.retention import PostgresRetention

    database = Postgres(where)
    store = await PostgresStore.open(database)
    return store, PostgresRetention(database), database.close


async def sweep(where: str, folder: Path, fatal: int) -> None:
    left = fatal

    def kill() -> None:
        nonlocal left
        left -= 1
        if not left:
            os.kill(os.getpid(), signal.SIGKILL)

    store, retention, close = await open_store(where)
    place: Any = Mortal(FolderPlace("file://archive", folder / "archive"), kill)
    # The turn of a process that was killed ends after some time.
    clock, logs = Watch(NOW + fatal * 1_000), MemoryTaskLogs()
    mortal: Any = Mortal(retention, kill)
    archive = ParquetArchive(
        place, store, mortal, logs, MemoryBlobs(), clock, folder / "tmp"
    )
    await Sweeper(mortal, logs, clock, f"child-{fatal}", archive=archive).sweep(60.0)
    await close()


async def report(where: str, folder: Path) -> dict[str, Any]:
    store, _, close = await open_store(where)
    place = FolderPlace("file://archive", folder / "archive")
    (folder / "tmp").mkdir(exist_ok=True)
    names = [
        each.execution_id
        async for manifest in each_manifest(place)
        for each in manifest.executions
    ]
    found = {
        "stored": sorted(each.execution_id for each in await store.find()),
        "archived": sorted(names),
        "faults": len(
            (await ArchiveReader(place, str(folder / "tmp")).verify()).faults
        ),
    }
    await close()
    return found


def main(where: str, folder: Path) -> None:
    fatal, killed = 0, True
    while killed:
        fatal += 1
        child = os.fork()
        if not child:
            asyncio.run(sweep(where, folder, fatal))
            os._exit(0)
        _, status = os.waitpid(child, 0)
        killed = os.WIFSIGNALED(status)
        assert killed or not status, status
        found = asyncio.run(report(where, folder))
        sys.stdout.write(json.dumps({**found, "killed": killed}) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
