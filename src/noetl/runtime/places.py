"""Executions that need a place of their concurrency key: let in, queued, or refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from noetl.engine.concurrency import Concurrency, superseded, taken
from noetl.engine.decide import Request, accept, let_in, nothing
from noetl.engine.events import Event
from noetl.engine.reports import OutOfOrder
from noetl.engine.state import State
from noetl.errors import NoPlace
from noetl.ports import Clock, Store
from noetl.runtime.alarm import Alarm
from noetl.runtime.live import Answer, Decision, Live
from noetl.runtime.transitions import LOOK, place_of
from noetl.types import JSON


class Hosts(Protocol):
    """What places need of the orchestrator."""

    store: Store
    clock: Clock
    alarm: Alarm

    def live(self, execution_id: str) -> Live | None: ...
    def forget(self, execution_id: str) -> None: ...
    async def refresh(self, execution_id: str) -> None: ...
    async def load(self, execution_id: str) -> State: ...
    async def cancel(
        self, execution_id: str, error: dict[str, JSON] | None = None
    ) -> None: ...
    async def begin(self, execution_id: str, decision: Decision) -> None: ...
    async def decide(
        self, execution_id: str, decision: Decision, disarm: str | None = None
    ) -> Answer: ...


class Places:
    """The store decides who has a place; here its answer is acted upon, again if need
    be: a timer of whoever waits says so until it is done."""

    def __init__(self, hosts: Hosts) -> None:
        self._hosts = hosts

    async def begin(self, request: Request) -> dict[str, JSON] | None:
        """Accept the request, perhaps to wait; or why there is no place for it."""
        name, concurrency = request.execution_id, request.concurrency
        if concurrency is not None:
            concurrency = self._redacted(name, concurrency)
            request = msgspec.structs.replace(request, concurrency=concurrency)
        try:
            await self._hosts.begin(name, lambda batch: accept(batch, request))
            return None
        except NoPlace:
            if concurrency is None:
                raise
        if concurrency.on_limit == "reject":
            line = await self._hosts.store.places(concurrency.place)
            held = [each for each in line if not each.queued] or line
            return taken(concurrency, [each.execution_id for each in held])
        await self._hosts.decide(
            name, lambda batch: accept(batch, request, queued=True)
        )
        return None

    def _redacted(self, execution_id: str, concurrency: Concurrency) -> Concurrency:
        """A key is made of inputs, and is shown: it tells no secret (S-41)."""
        live = self._hosts.live(execution_id)
        assert live is not None
        key = live.secrets.redact(concurrency.key, short=False)
        return msgspec.structs.replace(concurrency, key=key)

    def note(self, state: State, events: Sequence[Event]) -> None:
        """After a commit: look at once who is next, not only when others do."""
        if place_of(state, events) is not None:
            self._hosts.alarm.set(self._hosts.clock.now())

    async def look(self, execution_id: str) -> None:
        """It may be its turn: take a place, or go on waiting."""
        live = self._hosts.live(execution_id)
        concurrency = live.state.concurrency if live is not None else None
        if live is None or concurrency is None:
            return
        if live.state.queued is not None and concurrency.on_limit == "cancel_previous":
            await self._cancel_previous(execution_id, concurrency)
        try:
            await self._hosts.decide(execution_id, let_in, LOOK)
        except NoPlace:  # the store arms it again when there is room
            await self._hosts.decide(execution_id, nothing, LOOK)

    async def _cancel_previous(self, mine: str, concurrency: Concurrency) -> None:
        """All that wait before it, and as many of the others as it needs; the oldest
        first. It is let in when they have ended."""
        line = await self._hosts.store.places(concurrency.place)
        held = [each.execution_id for each in line if not each.queued]
        if mine in held:  # another server has let it in meanwhile
            return
        waiting = [each.execution_id for each in line if each.queued]
        before = waiting[: waiting.index(mine)] if mine in waiting else []
        surplus = max(0, len(held) + 1 - concurrency.limit)
        for execution_id in [*before, *held[:surplus]]:
            await self._hosts.refresh(execution_id)
            try:
                await self._hosts.load(execution_id)  # what only waits rests again
                await self._hosts.cancel(execution_id, superseded(concurrency, mine))
            except OutOfOrder:  # it has ended meanwhile
                continue
            live = self._hosts.live(execution_id)
            if live is not None and live.state.finished:
                self._hosts.forget(execution_id)
