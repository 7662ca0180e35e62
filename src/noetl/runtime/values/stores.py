"""Where values that are too large for the log are stored, and read by local workers."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager

import msgspec

from noetl.dsl.model import Playbook
from noetl.engine.recorder import Recorder
from noetl.engine.values.references import Values
from noetl.errors import ConfigError, StoreError
from noetl.ports import Blob, Blobs
from noetl.runtime.values.ownership import Owners
from noetl.types import JSON

log = logging.getLogger("noetl.results")

StoreSpec = Mapping[str, JSON]
Open = Callable[[StoreSpec], Awaitable[Blobs]]
"""Opens a kind of store. Raises ``ConfigError`` or ``StoreError`` if it cannot."""


def store_spec_of(playbook: Playbook) -> StoreSpec | None:
    """Return ``executor.spec.result.store`` of the playbook."""
    found: JSON = playbook.executor
    if not found:
        return None
    for name in ("spec", "result", "store"):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else None


class Results:
    """The host's own store, and the kinds that a playbook may choose instead.

    A kind that the host lacks is a warning, and the host's own store is used (S-71).
    """

    def __init__(self, own: Blobs, kinds: Mapping[str, Open] | None = None) -> None:
        self.own = own
        self.warn: Callable[[str], None] = log.warning
        self._kinds = kinds or {}
        self._chosen: dict[str, Blobs] = {}

    async def of(self, playbook: Playbook) -> Blobs:
        """Return the store for values of its executions; it can read those of all
        stores.
        """
        spec = store_spec_of(playbook)
        if spec is None:
            return self.own
        name = repr(sorted(spec.items(), key=str))
        if name not in self._chosen:
            self._chosen[name] = await self._choose(spec)
        return self._chosen[name]

    async def _choose(self, spec: StoreSpec) -> Blobs:
        kind = str(spec.get("kind"))
        try:
            if kind in self._kinds:
                return await self._kinds[kind](spec)
            known = ", ".join(sorted(self._kinds)) or "none"
            why = f"there is no '{kind[:40]}' here, there is {known}"
        except (ConfigError, StoreError) as error:
            why = str(error)
        place = self.own.place
        self.warn(f"executor.spec.result.store: {why}; results go to {place}")
        return self.own


async def store_blobs(blobs: Blobs, recorder: Recorder) -> None:
    """Store values before the events that name them (I-35)."""
    for body in recorder.blobs.values():
        await blobs.put(body)


class LocalValues(msgspec.Struct):
    """Values of one execution: no others can be read (I-36).

    ``put_keys`` are keys that no event names yet.
    """

    blobs: Blobs
    owners: Owners
    execution_id: str
    put_keys: set[str] = msgspec.field(default_factory=set)

    @property
    def drafts(self) -> str:
        return self.blobs.drafts

    async def put(self, data: bytes) -> None:
        self.put_keys.add(await self.blobs.put(data))

    async def adopt(self, file: str) -> Blob:
        blob = await self.blobs.adopt(file)
        self.put_keys.add(blob.key)
        return blob

    @asynccontextmanager
    async def file(self, key: str) -> AsyncIterator[str]:
        if key not in self.put_keys:
            await self.owners.check(self.execution_id, key)
        async with self.blobs.file(key) as path:
            yield path

    async def supply(self, references: Sequence[JSON], values: Values) -> None:
        own = self.put_keys
        await self.owners.load(self.execution_id, references, values, own=own)

    async def close(self) -> None:
        """Do nothing: no resources are held."""
