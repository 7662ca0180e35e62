"""The catalog: register, list, show, compare and validate playbooks."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Callable, Sequence

import msgspec

from noetl.adapters.processes.code_inspection import inspect_code
from noetl.adapters.tools import BUILTIN
from noetl.dialects import load
from noetl.dsl.canonical import digest
from noetl.dsl.load import Loaded
from noetl.dsl.tool_kinds import Kinds
from noetl.engine.times import rfc3339
from noetl.errors import VersionTaken
from noetl.ports import Blobs, CatalogRows, Clock, Registered
from noetl.service.errors import RequestRefused, no_playbook

PAGE_SIZE = 500
"""Playbooks that a listing reads from the store at once."""


class Version(msgspec.Struct, frozen=True):
    """A registered version and its source text."""

    registered: Registered
    source: str


class CatalogService:
    """Registers immutable versions of playbooks, and reads them."""

    def __init__(
        self,
        rows: CatalogRows,
        blobs: Blobs,
        clock: Clock,
        new_id: Callable[[], str],
        *,
        extensions: frozenset[str] = frozenset(),
        kinds: Kinds = BUILTIN,
    ) -> None:
        self._rows = rows
        self._blobs = blobs
        self._clock = clock
        self._new_id = new_id
        self._extensions = extensions
        self._kinds = kinds

    async def validate(self, text: str, *, strict: bool = False) -> Loaded:
        """Validate the text without running any of it."""
        source = text.encode()
        return await asyncio.to_thread(
            load,
            source,
            self._kinds,
            self._extensions,
            strict=strict,
            inspect=inspect_code,
        )

    async def register(
        self, loaded: Loaded, text: str, principal: str | None
    ) -> tuple[Registered, bool]:
        """Return the version, and True if it is new. Raises ``RequestRefused``."""
        playbook = loaded.playbook
        if playbook is None:
            error = loaded.refusal("the playbook")
            raise RequestRefused(
                error["kind"], error["message"], diagnostics=error["diagnostics"]
            )
        asked = Registered(
            playbook_id=self._new_id(),
            path=playbook.path,
            version=playbook.version or "",
            name=playbook.name,
            sha256=digest(playbook),
            source=await self._blobs.put(text.encode()),
            registered_at=rfc3339(self._clock.now()),
            registered_by=principal,
            extensions=tuple(sorted(playbook.extensions)),
        )
        try:
            found = await self._rows.add(asked)
        except VersionTaken as error:
            hint = "raise metadata.version, or remove it for automatic numbers"
            raise RequestRefused(error.kind, str(error), hint) from None
        return found, found.playbook_id == asked.playbook_id

    async def latest(
        self, prefix: str, after: str, limit: int, visible: Callable[[str], bool]
    ) -> tuple[Sequence[Registered], str | None]:
        """Return the latest version of each path, and the cursor of the next page.

        Paths that are not ``visible`` are not counted and never become a cursor.
        """
        found: list[Registered] = []
        while True:
            page = await self._rows.latest(prefix=prefix, after=after, limit=PAGE_SIZE)
            found += [each for each in page if visible(each.path)]
            if len(found) > limit:
                return found[:limit], found[limit - 1].path
            if len(page) < PAGE_SIZE:
                return found, None
            after = page[-1].path

    async def show(self, path: str, version: str | None = None) -> Version:
        found = await self._rows.find(path, version)
        if found is None:
            raise no_playbook(path, version)
        return Version(found, (await self._blobs.get(found.source)).decode())

    async def versions(self, path: str) -> Sequence[Registered]:
        """Return all versions, the latest first."""
        found = await self._rows.versions(path)
        if not found:
            raise no_playbook(path)
        return found

    async def diff(self, path: str, before: str | None, after: str | None) -> str:
        """Return a unified diff; by default of the latest version and the one before
        it."""
        newer = await self.show(path, after)
        if before is None:
            known = [each.version for each in await self.versions(path)]
            place = known.index(newer.registered.version)
            before = known[min(place + 1, len(known) - 1)]
        older = await self.show(path, before)
        lines = difflib.unified_diff(
            older.source.splitlines(),
            newer.source.splitlines(),
            f"{path}@{older.registered.version}",
            f"{path}@{newer.registered.version}",
            lineterm="",
        )
        return "".join(f"{line}\n" for line in lines)
