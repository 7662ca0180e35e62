"""What accounts ask of a database: statements, each of which is a transaction."""

from __future__ import annotations

from typing import Any, Protocol


class Database(Protocol):
    async def fetch(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        """Run one statement with ``$1``, ``$2``, …; durable when this returns.

        Raises ``StoreError``.
        """
        ...
