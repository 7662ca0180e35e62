"""Results of executions of a server."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from io import BytesIO
from typing import BinaryIO

import msgspec

from noetl.client import Client
from noetl.commands import remote
from noetl.commands.fetching import Writer, result_in
from noetl.engine.references import check_format
from noetl.types import JSON


def results_of(client: Client, execution_id: str) -> Iterator[dict[str, JSON]]:
    """What it has stored: each key once, with the event that named it first."""
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
    """Writes results of a server to ``file``; each call says how many bytes."""

    def __init__(self, client: Client, file: BinaryIO) -> None:
        self._client = client
        self._file = file
        self._writer = Writer(file, self._refer)
        self._execution_id: str | None = None

    async def blob(self, ref: str) -> int:
        """A stored value as it is, or some of its bytes."""
        return await self._download(ref, self._file)

    async def result(self, execution_id: str, step: str | None) -> int:
        """The result of an execution or of a step, with all that it refers to."""
        self._execution_id = execution_id
        document = await asyncio.to_thread(remote.show, self._client, execution_id)
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
