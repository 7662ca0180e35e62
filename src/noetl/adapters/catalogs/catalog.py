"""Catalog of a server: registered versions, each loaded once."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence

from noetl.adapters.catalogs.files import FileCatalog, describe
from noetl.adapters.tools import BUILTIN
from noetl.dialects import load, load_validated
from noetl.dsl.load import Loaded
from noetl.dsl.model import Playbook
from noetl.dsl.tool_kinds import Kinds
from noetl.errors import ConfigError
from noetl.ports import Blobs, CatalogEntry, CatalogRows, Registered
from noetl.types import JSON

_Known = tuple[Loaded, dict[str, JSON]]

MAX_LOADED = 256
"""Maximum number of playbooks in memory; the least recently used are dropped."""

MAX_HINTS = 1_000
"""Maximum number of registered paths among which a similar one is looked for."""


class RegisteredCatalog:
    """Finds registered playbooks, then files of a folder if one is given."""

    def __init__(
        self,
        rows: CatalogRows,
        blobs: Blobs,
        extensions: frozenset[str] = frozenset(),
        files: FileCatalog | None = None,
        kinds: Kinds = BUILTIN,
    ) -> None:
        self.rows = rows
        self._blobs = blobs
        self._extensions = extensions
        self._files = files
        self._kinds = kinds
        self._loaded: OrderedDict[tuple[str, frozenset[str]], _Known] = OrderedDict()
        self.place = "the catalog" + (f", {files.place}" if files else "")

    async def find(self, path: str, version: str | None) -> CatalogEntry | None:
        found = await self.rows.find(path, version)
        if found is not None:
            return await self.entry(found)
        return await self._files.find(path, version) if self._files else None

    async def paths(self) -> Sequence[str]:
        registered = [each.path for each in await self.rows.latest(limit=MAX_HINTS)]
        return [*registered, *(await self._files.paths() if self._files else ())]

    async def entry(self, found: Registered) -> CatalogEntry:
        """Load a registered playbook for an execution."""
        extensions = frozenset(found.extensions) | self._extensions
        loaded, about = await self._load(found.source, extensions)
        about = {**about, "path": found.path, "version": found.version}
        error = {} if loaded.playbook else loaded.refusal(f"'{found.path}'")
        return CatalogEntry(loaded.playbook, about, error)

    async def pinned(self, about: dict[str, JSON]) -> Playbook:
        key: str = about["source"]
        extensions = frozenset(about.get("extensions", ())) | self._extensions
        loaded, _ = await self._load(key, extensions)
        if loaded.playbook is None:  # an earlier version may have had fewer rules
            text = await self._blobs.get(key)
            loaded = await asyncio.to_thread(
                load_validated, text, self._kinds, extensions
            )
        if loaded.playbook is None:
            message = "the pinned playbook is not valid for this version of NoETL"
            raise ConfigError(message)
        return loaded.playbook

    async def _load(self, key: str, extensions: frozenset[str]) -> _Known:
        known = self._loaded.get((key, extensions))
        if known is None:
            text = await self._blobs.get(key)
            # On a thread: a large playbook takes a while and must not block the loop.
            loaded = await asyncio.to_thread(load, text, self._kinds, extensions)
            known = loaded, describe(loaded, key, None)
            self._loaded[key, extensions] = known
        self._loaded.move_to_end((key, extensions))
        while len(self._loaded) > MAX_LOADED:
            self._loaded.popitem(last=False)
        return known
