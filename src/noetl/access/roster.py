"""Which workers were heard of, and what they said of themselves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec


class Heard(msgspec.Struct, frozen=True, kw_only=True):
    """``slots`` is how many pipelines it has room for, ``running`` how many it runs.

    ``worker`` is its account and its own name: ``gpu-1/rack7-4711-9c2d``.
    """

    worker: str
    pool: str
    slots: int
    running: int
    seen_at: float
    address: str | None = None


class Roster(Protocol):
    """Where all servers of a cluster note it. Raises ``StoreError``."""

    async def note(self, heard: Heard) -> None: ...

    async def heard(self, *, since: float) -> Sequence[Heard]:
        """Those of which something was heard since then."""
        ...

    async def forget(self, *, before: float) -> None: ...
