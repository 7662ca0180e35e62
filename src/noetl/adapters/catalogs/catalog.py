"""Catalog of a server: registered versions, each loaded once."""

from __future__ import annotations

import asyncio
import re
from collections import OrderedDict
from collections.abc import Iterable, Sequence

from noetl.adapters.catalogs.files import FileCatalog, describe
from noetl.adapters.tools import BUILTIN
from noetl.dialects import load, load_validated
from noetl.dsl.load import Loaded
from noetl.dsl.model import Playbook
from noetl.dsl.tool_kinds import Kinds
from noetl.errors import ConfigError, VersionTaken
from noetl.ports import Blobs, CatalogEntry, Registered, Shelf
from noetl.types import JSON

_WHOLE = re.compile(r"[0-9]{1,18}\Z", re.ASCII)
_DIGITS = 20


def rank(version: str) -> str:
    """Return a text that sorts by version: 1.10 after 1.9, names before numbers."""
    return "\x01".join(_part(part) for part in version.split("."))


def _part(part: str) -> str:
    return f"1{part:0>{_DIGITS}}" if _WHOLE.match(part) else f"0{part}"


def next_number(versions: Iterable[str]) -> str:
    """Return one more than the largest leading whole number of the versions."""
    leads = (version.split(".")[0] for version in versions)
    return str(max((int(lead) for lead in leads if _WHOLE.match(lead)), default=0) + 1)


def same_or_taken(known: Registered, playbook: Registered) -> Registered:
    """Return the known playbook if it is the same. Raises ``VersionTaken``."""
    if known.sha256 == playbook.sha256:
        return known
    raise VersionTaken(
        f"version {known.version} of '{known.path}' is another playbook, registered at "
        f"{known.registered_at}"
    )


_Known = tuple[Loaded, dict[str, JSON]]

MAX_LOADED = 256
"""Maximum number of playbooks in memory; the least recently used are dropped."""

MAX_HINTS = 1_000
"""Maximum number of registered paths among which a similar one is looked for."""


class RegisteredCatalog:
    """Looks on the shelf, then among the files of a folder, if one is given."""

    def __init__(
        self,
        shelf: Shelf,
        blobs: Blobs,
        extensions: frozenset[str] = frozenset(),
        files: FileCatalog | None = None,
        kinds: Kinds = BUILTIN,
    ) -> None:
        self.shelf = shelf
        self._blobs = blobs
        self._extensions = extensions
        self._files = files
        self._kinds = kinds
        self._loaded: OrderedDict[tuple[str, frozenset[str]], _Known] = OrderedDict()
        self.place = "the catalog" + (f", {files.place}" if files else "")

    async def find(self, path: str, version: str | None) -> CatalogEntry | None:
        found = await self.shelf.find(path, version)
        if found is not None:
            return await self.entry(found)
        return await self._files.find(path, version) if self._files else None

    async def paths(self) -> Sequence[str]:
        registered = [each.path for each in await self.shelf.latest(limit=MAX_HINTS)]
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
