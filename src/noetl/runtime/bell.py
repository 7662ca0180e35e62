"""Rings when there may be work; everybody who listens hears it."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from typing import Protocol
from weakref import WeakSet


class Bell:
    """Each listener has an event of its own, and clears it when it goes to look. How
    often it has rung says whether somebody must look again."""

    def __init__(self) -> None:
        self.rings = 0
        self._listeners: WeakSet[asyncio.Event] = WeakSet()

    def listen(self) -> asyncio.Event:
        heard = asyncio.Event()
        self._listeners.add(heard)
        return heard

    def ring(self) -> None:
        self.rings += 1
        for heard in self._listeners:
            heard.set()


class Doorbell(Protocol):
    """Rings at other servers. The store decides what is done: a ring that is lost costs
    a moment, one too many nothing."""

    def ring(self, pools: Collection[str]) -> None:
        """Work of these pools is stored. Never waits, never fails."""
        ...
