"""Results on their way to somebody: verified, then copied part by part."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from typing import IO, BinaryIO

import msgspec

from noetl.commands.logs import (
    Place,
    find_execution,
    list_executions,
    read_pages,
    reading,
)
from noetl.dsl.diagnostics import did_you_mean
from noetl.engine.document import Document
from noetl.engine.references import check_format, is_reference
from noetl.errors import BlobGone, ConfigError, StoreError
from noetl.home import Home
from noetl.ports import Blobs
from noetl.runtime.ownership import Owners
from noetl.service.naming import LOG, keys_in
from noetl.service.refs import Ref, not_found
from noetl.types import JSON

Refer = Callable[[dict[str, JSON]], Awaitable[int]]
_PART = 1 << 20
_PAGE = 500


class Fetcher:
    """Writes results of this home to ``file``; each call says how many bytes."""

    def __init__(self, home: Home, blobs: Blobs, file: BinaryIO) -> None:
        self._home = home
        self._blobs = blobs
        self._file = file
        self._writer = Writer(file, self._refer)
        self._place: Place | None = None

    async def blob(self, ref: Ref) -> int:
        """A blob as it is, or some of its bytes."""
        try:
            async with self._blobs.file(ref.key) as path:
                return await asyncio.to_thread(self._copy, path, ref)
        except BlobGone as error:
            if not await self._is_named(ref.key):
                raise not_found(ref.key) from None
            raise _told(error) from None
        except StoreError as error:
            raise _told(error) from None

    async def result(self, place: Place, step: str | None) -> int:
        """The result of an execution or of a step, with all that it refers to."""
        self._place = place
        document = Document()
        async for page in read_pages(place):
            document.take(page)
        try:
            return await self._writer.line(result_in(document.as_json(), step))
        except StoreError as error:
            raise _told(error) from None

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
            message = "these are no characters: write them with --output FILE"
            raise ConfigError(message)

    async def _is_named(self, key: str) -> bool:
        """Whether a log has it: then it was there, and is gone."""
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
    """Writes values as JSON; what they refer to is copied by ``refer``, not held."""

    def __init__(self, file: IO[bytes], refer: Refer) -> None:
        self._file = file
        self._refer = refer

    async def line(self, value: JSON) -> int:
        return await self.write(value) + self._add(b"\n")

    async def write(self, value: JSON) -> int:
        """How many bytes it took."""
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
    """The result of an execution, or of the last run of a step."""
    if step is None:
        if document["status"] in ("running", "waiting", "paused"):
            name = document["execution_id"]
            message = f"{name} has no result yet; of a step, give --step NAME"
            raise ConfigError(message)
        return document["result"]
    lines = [line for line in document["steps"] if line["step"] == step]
    if not lines:
        hint = did_you_mean(step, {line["step"] for line in document["steps"]})
        raise ConfigError(f"no step '{step}' has run; {hint or 'none has'}")
    if lines[-1]["status"] != "done":
        raise ConfigError(f"step '{step}' has no result: it is {lines[-1]['status']}")
    return lines[-1]["result"]


def _members(value: dict[str, JSON] | list[JSON]) -> Iterator[tuple[str, JSON]]:
    if isinstance(value, dict):
        yield from value.items()
    else:
        for item in value:
            yield "", item


def _told(error: StoreError) -> StoreError:
    """With its kind in front, which scripts look for."""
    text = str(error)
    if text.startswith(f"{error.kind}: "):
        return error
    return StoreError(f"{error.kind}: {text}", error.kind)
