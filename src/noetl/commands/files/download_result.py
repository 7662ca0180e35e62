"""Download of stored results of this home or of a server: verified, copied in parts."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from io import BytesIO
from typing import IO, BinaryIO

import msgspec

from noetl.client.http import Client
from noetl.commands.local.logs import (
    Place,
    find_execution,
    list_executions,
    read_pages,
    reading,
)
from noetl.commands.remote import executions
from noetl.dsl.diagnostics import did_you_mean
from noetl.engine.execution_document import Document
from noetl.engine.values.references import check_format, is_reference
from noetl.errors import BlobGone, ConfigError, StoreError
from noetl.local.home import Home
from noetl.ports import Blobs
from noetl.runtime.values.ownership import Owners
from noetl.service.executions.results import LOG, Ref, keys_in, not_found
from noetl.types import JSON

Refer = Callable[[dict[str, JSON]], Awaitable[int]]
_PART = 1 << 20
_PAGE = 500


class Fetcher:
    """Writes results of this home to ``file``; each method returns the byte count."""

    def __init__(self, home: Home, blobs: Blobs, file: BinaryIO) -> None:
        self._home = home
        self._blobs = blobs
        self._file = file
        self._writer = Writer(file, self._refer)
        self._place: Place | None = None

    async def blob(self, ref: Ref) -> int:
        """Copy a blob, or a range of its bytes."""
        try:
            async with self._blobs.file(ref.key) as path:
                return await asyncio.to_thread(self._copy, path, ref)
        except BlobGone as error:
            if not await self._is_named(ref.key):
                raise not_found(ref.key) from None
            raise _with_kind(error) from None
        except StoreError as error:
            raise _with_kind(error) from None

    async def result(self, place: Place, step: str | None) -> int:
        """Write the result of an execution or step, including referenced values."""
        self._place = place
        document = Document()
        async for page in read_pages(place):
            document.take(page)
        try:
            return await self._writer.line(result_in(document.as_json(), step))
        except StoreError as error:
            raise _with_kind(error) from None

    async def _refer(self, reference: dict[str, JSON]) -> int:
        check_format(reference)
        key = str(reference["key"])
        if key.startswith(LOG):
            assert self._place is not None
            async with reading(self._place.log) as store:
                value = await Owners(store, self._blobs).loader.get(reference)
            return await self._writer.write(value)
        if reference.get("refs"):
            value = msgspec.json.decode(await self._blobs.get(key))
            return await self._writer.write(value)
        async with self._blobs.file(key) as path:
            return await asyncio.to_thread(self._copy, path, Ref(key))

    def _copy(self, path: str, ref: Ref) -> int:
        with open(path, "rb") as blob:
            first, count = ref.span(os.fstat(blob.fileno()).st_size)
            blob.seek(first)
            left = count
            while left > 0 and (part := blob.read(min(left, _PART))):
                self._refuse_terminal(part)
                self._file.write(part)
                left -= len(part)
        return count

    def _refuse_terminal(self, part: bytes) -> None:
        if b"\0" in part[:4096] and self._file.isatty():
            message = "this is binary data: write it to a file with --output FILE"
            raise ConfigError(message)

    async def _is_named(self, key: str) -> bool:
        """Return whether a log references the key: the value existed once."""
        cursor = None
        while page := await list_executions(self._home, _PAGE, cursor=cursor):
            for each in page:
                place = await find_execution(self._home, each.execution_id)
                async for events in read_pages(place):
                    if any(key in keys_in(event) for event in events):
                        return True
            cursor = page[-1].execution_id
        return False


class Writer:
    """Writes values as JSON; ``refer`` copies referenced values in parts."""

    def __init__(self, file: IO[bytes], refer: Refer) -> None:
        self._file = file
        self._refer = refer

    async def line(self, value: JSON) -> int:
        return await self.write(value) + self._add(b"\n")

    async def write(self, value: JSON) -> int:
        """Write ``value`` as JSON and return the number of bytes."""
        if is_reference(value):
            return await self._refer(value)
        if not isinstance(value, dict | list):
            return self._add(msgspec.json.encode(value))
        is_mapping = isinstance(value, dict)
        count = self._add(b"{" if is_mapping else b"[")
        for number, (name, member) in enumerate(_members(value)):
            start = b"," if number else b""
            if is_mapping:
                start += msgspec.json.encode(name) + b":"
            count += self._add(start) + await self.write(member)
        return count + self._add(b"}" if is_mapping else b"]")

    def _add(self, data: bytes) -> int:
        self._file.write(data)
        return len(data)


def result_in(document: dict[str, JSON], step: str | None) -> JSON:
    """Return the result of an execution, or of the last run of a step."""
    if step is None:
        if document["status"] in ("running", "waiting", "paused"):
            name = document["execution_id"]
            message = f"{name} has no result yet; for a step, add --step NAME"
            raise ConfigError(message)
        return document["result"]
    lines = [line for line in document["steps"] if line["step"] == step]
    if not lines:
        hint = did_you_mean(step, {line["step"] for line in document["steps"]})
        raise ConfigError(f"step '{step}' has not run; {hint or 'no step has run'}")
    if lines[-1]["status"] != "done":
        raise ConfigError(f"step '{step}' has no result: it is {lines[-1]['status']}")
    return lines[-1]["result"]


def _members(value: dict[str, JSON] | list[JSON]) -> Iterator[tuple[str, JSON]]:
    if isinstance(value, dict):
        yield from value.items()
    else:
        for item in value:
            yield "", item


def _with_kind(error: StoreError) -> StoreError:
    """Prefix the message with the error kind, which scripts look for."""
    text = str(error)
    if text.startswith(f"{error.kind}: "):
        return error
    return StoreError(f"{error.kind}: {text}", error.kind)


def results_of(client: Client, execution_id: str) -> Iterator[dict[str, JSON]]:
    """List stored values: each key once, with the first event that references it."""
    seen: set[str] = set()
    after: int | None = 0
    while after is not None:
        page = client.get(f"/api/executions/{execution_id}/results", after=after)
        for line in page["results"]:
            if line["key"] not in seen:
                seen.add(line["key"])
                yield line
        after = page["cursor"]


class RemoteFetcher:
    """Writes results of a server to ``file``; each method returns the byte count."""

    def __init__(self, client: Client, file: BinaryIO) -> None:
        self._client = client
        self._file = file
        self._writer = Writer(file, self._refer)
        self._execution_id: str | None = None

    async def blob(self, ref: str) -> int:
        """Copy a stored value, or a range of its bytes."""
        return await self._download(ref, self._file)

    async def result(self, execution_id: str, step: str | None) -> int:
        """Write the result of an execution or step, including referenced values."""
        self._execution_id = execution_id
        document = await asyncio.to_thread(executions.show, self._client, execution_id)
        return await self._writer.line(result_in(document, step))

    async def _refer(self, reference: dict[str, JSON]) -> int:
        check_format(reference)
        if not reference.get("refs"):
            return await self._download(reference["key"], self._file)
        held = BytesIO()
        await self._download(reference["key"], held)
        return await self._writer.write(msgspec.json.decode(held.getvalue()))

    async def _download(self, ref: str, file: BinaryIO | BytesIO) -> int:
        return await asyncio.to_thread(
            self._client.download,
            f"/api/results/{ref}",
            file,
            execution_id=self._execution_id,
        )
