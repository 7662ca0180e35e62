"""Playbooks by their path, and their versions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from noetl.dsl.model import Playbook
from noetl.types import JSON


class CatalogEntry(msgspec.Struct, frozen=True):
    """A playbook as it was found; without it, ``error`` says why it is not valid."""

    playbook: Playbook | None
    about: dict[str, JSON]
    error: dict[str, JSON] = msgspec.field(default_factory=dict)


class Catalog(Protocol):
    """Playbooks by their path. ``place`` says in a message where it looks."""

    place: str

    async def find(self, path: str, version: str | None) -> CatalogEntry | None: ...

    async def pinned(self, about: dict[str, JSON]) -> Playbook:
        """The playbook an execution was accepted with, whatever is there now."""
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


class Shelf(Protocol):
    """Versions of playbooks, each of which stays as it was registered."""

    async def add(self, playbook: Registered) -> Registered:
        """Keep it, or give back what is there already under the same digest.

        Without a version it becomes the next whole number of its path, unless the
        latest version is the same playbook. Raises ``VersionTaken`` if another one has
        its version.
        """
        ...

    async def get(self, playbook_id: str) -> Registered | None: ...

    async def find(self, path: str, version: str | None) -> Registered | None:
        """That version, or the latest: 1.10 is later than 1.9 (S-43)."""
        ...

    async def versions(self, path: str, *, limit: int = 1_000) -> Sequence[Registered]:
        """The latest first."""
        ...

    async def latest(
        self, *, prefix: str = "", after: str = "", limit: int = 100
    ) -> Sequence[Registered]:
        """The latest version of each path that begins so, in the order of paths."""
        ...
