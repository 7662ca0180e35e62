"""The events that a fork begins with, under its own names."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from noetl.engine.events import Event
from noetl.engine.evolve import replay
from noetl.engine.forking import Fork
from noetl.engine.records import pack
from noetl.engine.references import (
    holds_reference,
    is_reference,
    make_reference,
    references_in,
)
from noetl.engine.renaming import Renaming
from noetl.engine.state import State
from noetl.errors import BlobNotOwned
from noetl.ports import Blobs
from noetl.runtime.live import PAGE
from noetl.runtime.loading import Events
from noetl.runtime.ownership import Owners
from noetl.types import JSON

_MARK = b'"key":"log:'
_encode = msgspec.json.Encoder().encode


class Kept:
    """Read from the origin's log, which stays as it is.

    Results of children's loops are in the children's logs, out of the fork's reach:
    they become values of their own. What the origin was given by its children is
    ``inherited``, as far as the origin could read it (I-36).
    """

    def __init__(
        self, log: Events, blobs: Blobs, fork: Fork, asked: Event, owners: Owners
    ) -> None:
        self._log = log
        self._blobs = blobs
        self._fork = fork
        self._asked = asked
        self._rename = Renaming(fork.origin, fork.execution_id).event
        self._owners = owners
        self._copied: set[str] = set()
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
        payload = event.payload
        if _MARK in _encode(payload):
            payload = await self._within_reach(payload)
        if event.name == "task.resumed" and holds_reference(payload["answer"]):
            inherited = await self._inherited(payload["answer"])
            payload = {**payload, "inherited": inherited}
        return msgspec.structs.replace(event, payload=payload)

    async def _inherited(self, answer: JSON) -> list[str]:
        """Keys of what came, if the origin could read it; copies are the fork's own."""
        keys = {reference["key"] for reference in references_in(answer)}
        readable = await self._owners.readable(self._fork.origin, answer)
        return sorted({*readable, *(keys & self._copied)})

    async def _within_reach(self, value: JSON) -> JSON:
        if is_reference(value):
            key = value["key"]
            if not key.startswith("log:") or key.startswith(self._own):
                return value
            try:
                body = _encode(await self._owners.whole(self._fork.origin, value))
            except BlobNotOwned:
                return value  # its readers are told so
            key = await self._blobs.put(body)
            self._copied.add(key)
            return make_reference(key, len(body), "list", body)
        if isinstance(value, dict):
            return {key: await self._within_reach(each) for key, each in value.items()}
        if isinstance(value, list):
            return [await self._within_reach(each) for each in value]
        return value
