"""Results that a tool writes row by row: masked, checked, then stored as a blob."""

from __future__ import annotations

import asyncio
import os
import secrets
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import BinaryIO

import msgspec

from noetl.engine.secrets.handles import Secrets
from noetl.engine.tasks.outcome import Stored
from noetl.engine.values.references import claims_encoded, may_hold_handle
from noetl.errors import StoreError, ToolError
from noetl.ports import tool_error
from noetl.runtime.dispatcher import TaskValues
from noetl.types import JSON

BUFFER_BYTES = 1024 * 1024
"""Maximum bytes that a draft holds in memory, besides one row."""

_encode = msgspec.json.Encoder().encode


def new_draft(folder: str) -> str:
    """Return the path of a new file in the folder, and create the folder."""
    os.makedirs(folder, mode=0o700, exist_ok=True)
    return os.path.join(folder, f"{secrets.token_hex(16)}.draft")


class RowDraft:
    """A JSON list with one row on each line, which readers of lines can read, too."""

    def __init__(self, file: str, values: TaskValues, secrets: Secrets) -> None:
        self._path = file
        self._file: BinaryIO = open(file, "xb", buffering=0)  # noqa: SIM115
        self._values = values
        self._secrets = secrets
        self._buffer = bytearray(b"[")
        self._separator = b"\n"
        self.size = 0

    async def add(self, rows: Sequence[JSON]) -> None:
        for row in rows:
            self._take(self._encoded(row))
        if len(self._buffer) >= BUFFER_BYTES:
            await asyncio.to_thread(self._flush)

    async def add_lines(self, lines: Sequence[bytes]) -> None:
        """Add rows that are encoded as JSON."""
        if self._secrets.hides or any(map(_may_name_secret, lines)):
            await self.add([msgspec.json.decode(line) for line in lines])
            return
        for line in lines:
            self._take(_checked(line.rstrip(b"\n")))
        await asyncio.to_thread(self._flush)

    def _take(self, line: bytes) -> None:
        self._buffer += self._separator
        self._buffer += line
        self._separator = b",\n"
        self.size += len(line) + 2

    def _flush(self) -> None:
        with memoryview(self._buffer) as rest:
            written = 0
            while written < len(rest):
                written += self._file.write(rest[written:])
        self._buffer.clear()

    async def keep(self) -> Stored:
        self._buffer += b"\n]"
        await asyncio.to_thread(self._flush)
        self._file.close()
        return await _adopted(self._values, self._path, "list")

    def drop(self) -> None:
        self._file.close()
        with suppress(FileNotFoundError):
            os.unlink(self._path)

    def _encoded(self, row: JSON) -> bytes:
        try:
            row = self._secrets.redact(row)
            line = _encode(row)
            if may_hold_handle(line):
                line = _encode(self._secrets.without_handles(row))
        except (TypeError, ValueError) as error:
            message = f"the result is not JSON: {error}"
            raise ToolError("tool.contract", message) from None
        return _checked(line)


def _may_name_secret(line: bytes) -> bool:
    """Return whether a row in any JSON spelling may hold the handle of a secret."""
    return b'"secret"' in line or b"\\u" in line


def _checked(line: bytes) -> bytes:
    if claims_encoded(line):
        message = "a row claims to be a reference of NoETL's own store"
        raise ToolError("ref.not_owner", message)
    return line


class CallDrafts(msgspec.Struct, frozen=True):
    """The drafts of one call, and the secrets of its execution."""

    values: TaskValues
    secrets: Secrets

    def open(self) -> RowDraft:
        return RowDraft(self.file(), self.values, self.secrets)

    def file(self) -> str:
        return new_draft(self.values.drafts)

    @asynccontextmanager
    async def stored(self, key: str) -> AsyncIterator[str]:
        async with AsyncExitStack() as stack:
            try:
                path = await stack.enter_async_context(self.values.file(key))
            except StoreError as error:
                raise tool_error(error, str(error)) from None
            yield path

    async def adopt(self, file: str, hint: str) -> Stored:
        if hint != "json":
            return await _adopted(self.values, file, hint)
        draft = self.open()
        try:
            lines = _lines(file)
            while batch := await asyncio.to_thread(next, lines, None):
                await draft.add_lines(batch)
            return await draft.keep()
        finally:
            draft.drop()
            os.unlink(file)


async def _adopted(values: TaskValues, file: str, hint: str) -> Stored:
    try:
        blob = await values.adopt(file)
    except StoreError as error:  # the call has failed: retry rules may apply
        raise tool_error(error, str(error)) from None
    return Stored(blob.key, blob.size, hint)


def _lines(file: str) -> Iterator[list[bytes]]:
    """Yield the rows of a file of JSON lines, about one buffer at a time."""
    with open(file, "rb") as opened:
        while lines := opened.readlines(BUFFER_BYTES):
            yield lines
