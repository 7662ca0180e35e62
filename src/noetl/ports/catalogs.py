"""Catalogs of playbooks by path and version."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from noetl.dsl.model import Playbook
from noetl.types import JSON


class CatalogEntry(msgspec.Struct, frozen=True):
    """A playbook that was found; without a playbook, ``error`` is the reason."""

    playbook: Playbook | None
    about: dict[str, JSON]
    error: dict[str, JSON] = msgspec.field(default_factory=dict)


class Catalog(Protocol):
    """Playbooks by path. ``place`` names the location in messages."""

    place: str

    async def find(self, path: str, version: str | None) -> CatalogEntry | None: ...

    async def paths(self) -> Sequence[str]:
        """Return paths of playbooks for hints: at most some thousands."""
        ...

    async def pinned(self, about: dict[str, JSON]) -> Playbook:
        """Return the playbook that the execution was accepted with, whatever is there
        now."""
        ...


class Registered(msgspec.Struct, frozen=True, kw_only=True):
    """A version of a playbook in the catalog; ``source`` is the key of its text."""

    playbook_id: str
    path: str
    version: str
    name: str
    sha256: str
    source: str
    registered_at: str
    registered_by: str | None = None
    extensions: tuple[str, ...] = ()


class CatalogRows(Protocol):
    """Registered versions of playbooks; a version never changes."""

    async def add(self, playbook: Registered) -> Registered:
        """Register the playbook, or return the registered one with the same digest.

        Without a version it gets the next whole number of its path, unless the latest
        version is the same playbook. Raises ``VersionTaken`` if another playbook has
        the version.
        """
        ...

    async def get(self, playbook_id: str) -> Registered | None: ...

    async def find(self, path: str, version: str | None) -> Registered | None:
        """Return that version, or the latest: 1.10 is later than 1.9 (S-43)."""
        ...

    async def versions(self, path: str, *, limit: int = 1_000) -> Sequence[Registered]:
        """Return the versions of a path, the latest first."""
        ...

    async def latest(
        self, *, prefix: str = "", after: str = "", limit: int = 100
    ) -> Sequence[Registered]:
        """Return the latest version of each path with the prefix, ordered by path."""
        ...
