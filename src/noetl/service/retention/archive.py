"""The archive that a server writes: batches of executions that it then removes."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import sha256
from pathlib import Path

import msgspec

from noetl.adapters.analytics.tables import execution_line
from noetl.adapters.archive.manifest import (
    ArchivedExecution,
    ArchivedFile,
    Manifest,
    encode_manifest,
    path_of,
    read_manifest,
    value_path,
)
from noetl.adapters.archive.parts import Part, PartWriter, row_line
from noetl.adapters.archive.places import Place
from noetl.adapters.stores.batches import Row, unpack_rows
from noetl.adapters.tools.duckdb.temp_dirs import Bench
from noetl.engine.event_codec import event_line
from noetl.engine.events import Event
from noetl.engine.times import rfc3339
from noetl.errors import BlobGone, StoreError
from noetl.ports import Blobs, Clock, Removal, Retention, TaskLogs
from noetl.ports.log_maintenance import RecordReader
from noetl.service.executions.results import LOG, keys_in

ROWS = 200
"""Rows of a log that are read at a time."""
CHUNKS = 16


class ParquetArchive:
    """Writes a batch as Parquet files, then the values that it names, and its manifest
    last. ``folder`` is for temporary files."""

    def __init__(
        self,
        place: Place,
        store: RecordReader,
        retention: Retention,
        task_logs: TaskLogs,
        blobs: Blobs,
        clock: Clock,
        folder: Path,
    ) -> None:
        self._place = place
        self._store = store
        self._retention = retention
        self._task_logs = task_logs
        self._blobs = blobs
        self._clock = clock
        self._bench = Bench(str(folder))

    async def keep(self, removal: Removal) -> None:
        if await self._is_kept(removal):
            return
        with self._scratch() as folder:
            with PartWriter(folder) as writer:
                executions = [
                    await self._add(writer, name) for name in removal.execution_ids
                ]
                parts = await asyncio.to_thread(writer.write)
            month = executions[0].summary.started_at[:7].split("-")
            where = f"y={month[0]}/m={month[1]}/{removal.name}.parquet"
            files = {
                name: await self._put(f"{name}/{where}", part)
                for name, part in parts.items()
            }
            done = [await self._with_values(each, folder) for each in executions]
        at = rfc3339(self._clock.now())
        manifest = Manifest(removal.name, at, files, done)
        await self._place.put(manifest.path, encode_manifest(manifest))

    async def discard(self, removal: Removal) -> None:
        manifest = await read_manifest(self._place, removal.name)
        if manifest is None:
            return
        await self._place.remove(path_of(removal.name))
        for file in manifest.files.values():
            await self._place.remove(file.path)

    async def _is_kept(self, removal: Removal) -> bool:
        """Return whether a server has copied this batch before it was killed."""
        manifest = await read_manifest(self._place, removal.name)
        if manifest is None:
            return False
        names = [each.execution_id for each in manifest.executions]
        return names == list(removal.execution_ids) and all(
            [
                await self._place.size(file.path) == file.bytes
                for file in manifest.files.values()
            ]
        )

    async def _add(self, writer: PartWriter, execution_id: str) -> ArchivedExecution:
        """Add the rows of one execution to the files."""
        records = await self._store.records(execution_id)
        values: set[str] = set()
        after, trace, last_hash = 0, "", b""
        while rows := await self._retention.rows(execution_id, after=after, limit=ROWS):
            read = [Row(*each) for each in rows]
            events = unpack_rows(read, execution_id, after, None)
            trace = trace or str(events[0].payload.get("trace_id", ""))
            text = b"".join(row_line(execution_id, each) for each in read)
            full = writer.add("log", text) | writer.add("events", _lines(events, trace))
            for event in events:
                values.update(keys_in(event))
            after, last_hash = read[-1].last_seq, read[-1].hash
            if full:
                await asyncio.to_thread(writer.flush)
        if after != records.last_seq:
            message = f"execution {execution_id}: event {after + 1} is missing"
            raise StoreError(message, "log.hash_mismatch")
        writer.add("executions", execution_line(records.summary, after))
        await self._add_task_logs(writer, execution_id)
        return ArchivedExecution(
            records.summary,
            after,
            last_hash.hex(),
            records.request_key,
            sorted(key for key in values if not key.startswith(LOG)),
        )

    async def _add_task_logs(self, writer: PartWriter, execution_id: str) -> None:
        start = -1
        following = 0
        while following != start:
            start = following
            found, following = await self._task_logs.read(
                execution_id, start=start, limit=CHUNKS
            )
            for each in found:
                line = {
                    "execution_id": execution_id,
                    "position": each.position,
                    "chunk": each.chunk,
                }
                if writer.add("task_logs", msgspec.json.encode(line) + b"\n"):
                    await asyncio.to_thread(writer.flush)

    async def _put(self, path: str, part: Part) -> ArchivedFile:
        digest = await asyncio.to_thread(digest_of, part.file)
        size = await asyncio.to_thread(os.path.getsize, part.file)
        await self._place.put_file(path, part.file)
        return ArchivedFile(path, digest, size, part.rows)

    async def _with_values(
        self, execution: ArchivedExecution, folder: str
    ) -> ArchivedExecution:
        """Copy the values that an execution names, unless the archive has them."""
        missing = []
        for key in execution.values:
            if await self._place.size(value_path(key)) is not None:
                continue
            try:
                async with self._blobs.file(key) as file:
                    await self._place.put_file(value_path(key), file)
            except BlobGone:
                missing.append(key)
        return msgspec.structs.replace(execution, missing=missing)

    @contextmanager
    def _scratch(self) -> Iterator[str]:
        scratch = self._bench.scratch()
        scratch.make()
        try:
            yield scratch.path
        finally:
            scratch.remove()


def _lines(events: list[Event], trace: str) -> bytes:
    return b"\n".join([event_line(event, trace) for event in events]) + b"\n"


def digest_of(file: str) -> str:
    """Return the SHA-256 of a file."""
    digest = sha256()
    with open(file, "rb") as opened:
        while part := opened.read(1 << 20):
            digest.update(part)
    return digest.hexdigest()
