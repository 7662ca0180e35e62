"""Secrets of executions in memory, for tests and simulations: gone with the process."""

from __future__ import annotations

from noetl.types import JSON


class MemorySealed:
    def __init__(self) -> None:
        self._kept: dict[str, dict[str, JSON]] = {}

    async def save(self, execution_id: str, name: str, value: JSON) -> None:
        self._kept.setdefault(execution_id, {})[name] = value

    async def load(self, execution_id: str) -> dict[str, JSON]:
        return dict(self._kept.get(execution_id, {}))

    async def drop(self, execution_id: str) -> None:
        self._kept.pop(execution_id, None)

    async def kept(self) -> list[str]:
        return list(self._kept)
