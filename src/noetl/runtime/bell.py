"""Rings when there may be work; everybody who listens hears it."""

from __future__ import annotations

import asyncio
from weakref import WeakSet


class Bell:
    """Each listener has an event of its own, and clears it when it goes to look."""

    def __init__(self) -> None:
        self._listeners: WeakSet[asyncio.Event] = WeakSet()

    def listen(self) -> asyncio.Event:
        heard = asyncio.Event()
        self._listeners.add(heard)
        return heard

    def ring(self) -> None:
        for heard in self._listeners:
            heard.set()
