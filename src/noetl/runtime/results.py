"""Where values go that are too large for the log: where the playbook wants them."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping

from noetl.dsl.model import Playbook
from noetl.engine.batch import Recorder
from noetl.errors import ConfigError, StoreError
from noetl.ports import Blobs
from noetl.types import JSON

log = logging.getLogger("noetl.results")

Wish = Mapping[str, JSON]
Open = Callable[[Wish], Awaitable[Blobs]]
"""A kind of store. Raises ``ConfigError`` or ``StoreError`` if it is no use."""


def wish_of(playbook: Playbook) -> Wish | None:
    """``executor.spec.result.store``."""
    found: JSON = playbook.executor
    for name in ("spec", "result", "store"):
        found = found.get(name) if isinstance(found, Mapping) else None
    return found if isinstance(found, Mapping) else None


class Results:
    """The host's own store, and the kinds that a playbook may choose instead.

    What a host lacks is a warning, and its own store is used (S-71).
    """

    def __init__(self, own: Blobs, kinds: Mapping[str, Open] | None = None) -> None:
        self.own = own
        self.warn: Callable[[str], None] = log.warning
        self._kinds = kinds or {}
        self._chosen: dict[str, Blobs] = {}

    async def of(self, playbook: Playbook) -> Blobs:
        """Where the values of its executions go; what is anywhere can be read."""
        wish = wish_of(playbook)
        if wish is None:
            return self.own
        name = repr(sorted(wish.items(), key=str))
        if name not in self._chosen:
            self._chosen[name] = await self._choose(wish)
        return self._chosen[name]

    async def _choose(self, wish: Wish) -> Blobs:
        kind = str(wish.get("kind"))
        try:
            if kind in self._kinds:
                return await self._kinds[kind](wish)
            known = ", ".join(sorted(self._kinds)) or "none"
            why = f"there is no '{kind[:40]}' here, there is {known}"
        except (ConfigError, StoreError) as error:
            why = str(error)
        place = self.own.place
        self.warn(f"executor.spec.result.store: {why}; results go to {place}")
        return self.own


async def store_blobs(blobs: Blobs, recorder: Recorder) -> None:
    """Before the events that name them (I-35)."""
    for body in recorder.blobs.values():
        await blobs.put(body)
