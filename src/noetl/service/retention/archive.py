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
    HEAD,
    ArchivedExecution,
    ArchivedFile,
    Head,
    Manifest,
    path_of,
    read_head,
    read_manifest,
    sealed,
    set_head,
    value_path,
)
from noetl.adapters.archive.parts import Part, PartWriter, row_line
from noetl.adapters.archive.places import Place
from noetl.adapters.stores.batches import FIRST, Row, link, unpack_rows
from noetl.adapters.tools.duckdb.temp_dirs import Bench
from noetl.engine.event_codec import event_line
from noetl.engine.events import Event
from noetl.engine.times import rfc3339
from noetl.errors import BlobCorrupt, BlobGone, StoreError
from noetl.ports import Blobs, Clock, Removal, Retention, TaskLogs
from noetl.ports.log_maintenance import RecordReader
from noetl.ports.retention import Damaged
from noetl.service.executions.results import LOG, keys_in

ROWS = 200
"""Rows of a log that are read at a time."""
CHUNKS = 16
DAMAGE = ("store.corrupt", "log.hash_mismatch")


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
        head = await read_head(self._place)
        kept = await self._find_kept(removal)
        if kept is not None:
            if head is None or head.last != kept.link:
                await set_head(self._place, Head(kept.link, kept.previous))
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
        previous = None if head is None else head.last
        if head is not None and head.last.name == removal.name:
            previous = head.previous
        manifest = sealed(Manifest(removal.name, at, files, done, previous))
        await self._place.put(manifest.path, msgspec.json.encode(manifest))
        await set_head(self._place, Head(manifest.link, previous))

    async def discard(self, removal: Removal) -> None:
        manifest = await read_manifest(self._place, removal.name)
        if manifest is None:
            return
        before = manifest.previous
        if before is None:
            await self._place.remove(HEAD)
        else:
            found = await read_manifest(self._place, before.name)
            earlier = None if found is None else found.previous
            await set_head(self._place, Head(before, earlier))
        await self._place.remove(path_of(removal.name))
        for file in manifest.files.values():
            await self._place.remove(file.path)

    async def _find_kept(self, removal: Removal) -> Manifest | None:
        """Return the copy of this batch that a server made before it was killed."""
        manifest = await read_manifest(self._place, removal.name)
        if manifest is None:
            return None
        names = [each.execution_id for each in manifest.executions]
        if names != list(removal.execution_ids):
            return None
        for file in manifest.files.values():
            if await self._place.size(file.path) != file.bytes:
                return None
        return manifest

    async def _add(self, writer: PartWriter, execution_id: str) -> ArchivedExecution:
        """Add the rows of one execution to the files. Raises ``StoreError``."""
        try:
            return await self._copy(writer, execution_id)
        except StoreError as error:
            if error.kind in DAMAGE:
                raise Damaged(execution_id, error) from error
            raise

    async def _copy(self, writer: PartWriter, execution_id: str) -> ArchivedExecution:
        records = await self._store.records(execution_id)
        values: set[str] = set()
        after, trace, last_hash = 0, "", FIRST
        while after < records.last_seq:
            rows = await self._retention.rows(execution_id, after=after, limit=ROWS)
            if not rows:
                message = f"execution {execution_id}: event {after + 1} is missing"
                raise StoreError(message, "log.hash_mismatch")
            read = [Row(*each) for each in rows]
            for row in read:
                last_hash = _checked(execution_id, last_hash, row)
            events = unpack_rows(read, execution_id, after, None)
            trace = trace or str(events[0].payload.get("trace_id", ""))
            text = b"".join(row_line(execution_id, each) for each in read)
            full = writer.add("log", text) | writer.add("events", _lines(events, trace))
            for event in events:
                values.update(keys_in(event))
            after = read[-1].last_seq
            if full:
                await asyncio.to_thread(writer.flush)
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
            except (BlobGone, BlobCorrupt):
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


def _checked(execution_id: str, previous: bytes, row: Row) -> bytes:
    """Return the hash of a row. Raises ``StoreError`` if it is not that of the chain:
    a log that was changed is not removed."""
    if link(previous, row) != row.hash:
        message = f"execution {execution_id}: the row that ends with event "
        message += f"{row.last_seq} is not the one that was recorded"
        raise StoreError(message, "log.hash_mismatch")
    return row.hash


def _lines(events: list[Event], trace: str) -> bytes:
    return b"\n".join([event_line(event, trace) for event in events]) + b"\n"


def digest_of(file: str) -> str:
    """Return the SHA-256 of a file."""
    digest = sha256()
    with open(file, "rb") as opened:
        while part := opened.read(1 << 20):
            digest.update(part)
    return digest.hexdigest()
