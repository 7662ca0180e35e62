"""The events that a fork begins with, under its own names."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from noetl.engine.events import Event
from noetl.engine.evolve import replay
from noetl.engine.forking import Fork
from noetl.engine.records import pack
from noetl.engine.references import is_reference, make_reference
from noetl.engine.renaming import Renaming
from noetl.engine.state import State
from noetl.ports import Blobs
from noetl.runtime.live import PAGE
from noetl.runtime.loading import Events, Loader
from noetl.types import JSON

_MARK = b'"key":"log:'
_encode = msgspec.json.Encoder().encode


class Kept:
    """Read from the origin's log, which stays as it is.

    Results of children's loops are in the children's logs, out of the fork's reach:
    they become values of their own.
    """

    def __init__(self, log: Events, blobs: Blobs, fork: Fork, asked: Event) -> None:
        self._log = log
        self._blobs = blobs
        self._fork = fork
        self._asked = asked
        self._rename = Renaming(fork.origin, fork.execution_id).event
        self._loader = Loader(log, blobs)
        self._own = f"log:{fork.execution_id}-"

    async def read(
        self, execution_id: str, *, after: int = 0, limit: int | None = None
    ) -> Sequence[Event]:
        """As the store will, once it has them."""
        if execution_id != self._fork.execution_id:
            return await self._log.read(execution_id, after=after, limit=limit)
        left = self._fork.seq - after
        count = left if limit is None else min(limit, left)
        if count <= 0:
            return []
        page = await self._log.read(self._fork.origin, after=after, limit=count)
        return [await self._adopt(event) for event in page]

    async def take(self) -> tuple[State, list[bytes]]:
        """What they add up to, and how they are stored."""
        state, bodies = State(), list[bytes]()
        name = self._fork.execution_id
        while page := await self.read(name, after=state.seq, limit=PAGE):
            replay(page, state)
            bodies += map(pack, page)
        return state, bodies

    async def _adopt(self, event: Event) -> Event:
        if event.seq == 1:
            return self._asked
        event = self._rename(event)
        if _MARK not in _encode(event.payload):
            return event
        payload = await self._within_reach(event.payload)
        return msgspec.structs.replace(event, payload=payload)

    async def _within_reach(self, value: JSON) -> JSON:
        if is_reference(value):
            key = value["key"]
            if not key.startswith("log:") or key.startswith(self._own):
                return value
            body = _encode(await self._loader.get(value))
            return make_reference(await self._blobs.put(body), len(body), "list", body)
        if isinstance(value, dict):
            return {key: await self._within_reach(each) for key, each in value.items()}
        if isinstance(value, list):
            return [await self._within_reach(each) for each in value]
        return value
