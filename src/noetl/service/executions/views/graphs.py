"""The playbooks that ran, and drawings of their nets as data."""

from __future__ import annotations

import asyncio
from collections import OrderedDict

import msgspec

from noetl.adapters.catalogs.catalog import RegisteredCatalog
from noetl.dsl.model import Playbook
from noetl.engine.events import ExecutionRequested
from noetl.errors import BlobGone, ConfigError, NoetlError
from noetl.net.draw.picture import make_picture
from noetl.net.net import build_net
from noetl.ports import Catalog, LogReader
from noetl.service.errors import RequestRefused, no_playbook
from noetl.types import JSON

CACHE_BYTES = 32 * 1024 * 1024
"""Bytes of encoded drawings in memory; the least recently used are dropped."""


class PlaybooksThatRan:
    """The playbooks of executions, as they were accepted."""

    def __init__(self, log: LogReader, catalog: Catalog) -> None:
        self._log = log
        self._catalog = catalog

    async def find(self, execution_id: str) -> Playbook | None:
        """Return the playbook; None if its text is lost or not valid any more."""
        for first in await self._log.read(execution_id, limit=1):
            asked: ExecutionRequested = first.payload
            if asked["playbook"].get("source") is None:
                return None
            try:
                return await self._catalog.pinned(asked["playbook"])
            except NoetlError:
                return None
        return None


class Drawing(msgspec.Struct, frozen=True):
    """An encoded ``Picture``; the same ``source`` and extensions give the same one."""

    source: str
    body: bytes


class Graphs:
    """Lays out nets on a thread, one at a time, once for each text."""

    def __init__(self, log: LogReader, catalog: RegisteredCatalog) -> None:
        self._log = log
        self._catalog = catalog
        self._known: OrderedDict[tuple[str, ...], Drawing] = OrderedDict()
        self._size = 0
        self._one_at_a_time = asyncio.Lock()

    async def of_execution(self, execution_id: str) -> Drawing:
        """Return the drawing of the playbook that ran.

        Raises ``BlobGone`` if its text is lost, ``RequestRefused`` if it is not valid.
        """
        [first] = await self._log.read(execution_id, limit=1)
        asked: ExecutionRequested = first.payload
        about = asked["playbook"]
        if about.get("source") is None:
            raise BlobGone("the execution has no playbook source")
        return await self._draw(about, None)

    async def of_version(self, path: str, version: str | None) -> Drawing:
        """Return the drawing of a registered version, by default of the latest."""
        found = await self._catalog.rows.find(path, version)
        if found is None:
            raise no_playbook(path, version)
        entry = await self._catalog.entry(found)
        if entry.playbook is None:
            raise _not_drawable(entry.error["message"])
        return await self._draw(entry.about, entry.playbook)

    async def _draw(self, about: dict[str, JSON], playbook: Playbook | None) -> Drawing:
        key = (about["source"], *sorted(about.get("extensions", ())))
        async with self._one_at_a_time:
            if key not in self._known:
                if playbook is None:
                    playbook = await self._pinned(about)
                digest = str(about.get("sha256") or "")
                body = await asyncio.to_thread(_encode, playbook, digest)
                self._keep(key, Drawing("-".join(key), body))
            self._known.move_to_end(key)
            return self._known[key]

    async def _pinned(self, about: dict[str, JSON]) -> Playbook:
        try:
            return await self._catalog.pinned(about)
        except ConfigError as error:
            raise _not_drawable(str(error)) from None

    def _keep(self, key: tuple[str, ...], drawing: Drawing) -> None:
        self._known[key] = drawing
        self._size += len(drawing.body)
        while self._size > CACHE_BYTES and len(self._known) > 1:
            _, dropped = self._known.popitem(last=False)
            self._size -= len(dropped.body)


def _encode(playbook: Playbook, digest: str) -> bytes:
    return msgspec.json.encode(make_picture(build_net(playbook), digest))


def _not_drawable(reason: str) -> RequestRefused:
    return RequestRefused("playbook.invalid", f"the graph cannot be drawn: {reason}")
