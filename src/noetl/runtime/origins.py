"""Where a fork can begin: a point of a log, and what the execution was there."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

import msgspec

from noetl.engine.events import Event
from noetl.engine.evolve import evolve, replay
from noetl.engine.forking import is_firm, is_idle
from noetl.engine.state import State
from noetl.errors import ConfigError
from noetl.runtime.live import PAGE, freeze, thaw
from noetl.runtime.loading import Events

WINDOW = 64
"""Events in which a firm point is found: a decision is far shorter than that."""

FIRST = 3
"""The event with which work begins: requested and evaluated come before it."""


class Damaged(Protocol):
    """Where a log stops being what was recorded."""

    @property
    def seq(self) -> int: ...
    @property
    def message(self) -> str: ...


class Log(Events, Protocol):
    """What is asked of the store that has the origin; it is only read."""

    async def verify(self, execution_id: str) -> Damaged | None: ...


class Point(msgspec.Struct, frozen=True):
    """``seq`` events are kept, and add up to ``state``; ``first`` is their first."""

    execution_id: str
    seq: int
    first: Event
    state: State


async def find_point(log: Log, execution_id: str, at: int) -> Point:
    """The point at this event, or just before it if it is half a decision.

    Raises ``ConfigError`` where no fork can begin.
    """
    await _check_intact(log, execution_id, at)
    state, first, over = State(), None, None
    base, window = b"", list[Event]()
    async for event in _events(log, execution_id, at):
        first = first or event
        if over is None and event.name in ("workflow.cancelled", "workflow.finished"):
            over = event
        if event.seq == max(1, at - WINDOW):
            base = freeze(state)
        if base:
            window.append(event)
        evolve(state, event)
    if first is None or state.seq < at:
        raise ConfigError(f"there is no event {at}: the log has 1 to {state.seq}")
    _check_begun(first, state, over, at)
    firm = _last_firm(base, window)
    if firm < FIRST:
        raise ConfigError(f"nothing has begun at event {at}; the first is {FIRST}")
    if firm < at:
        kept = [event for event in window if event.seq <= firm]
        state = replay(kept, thaw(base))
    if is_idle(state):
        raise ConfigError(f"nothing is left to do at event {firm}: {_advice(state)}")
    return Point(execution_id, firm, first, state)


async def _check_intact(log: Log, execution_id: str, at: int) -> None:
    damage = await log.verify(execution_id)
    if damage is None or damage.seq > at:
        return
    message = f"the log of {execution_id} is damaged: {damage.message}"
    if damage.seq > FIRST + 1:
        message += f"; what was before can be kept: --at {damage.seq - 1}"
    raise ConfigError(message)


def _check_begun(first: Event, state: State, over: Event | None, at: int) -> None:
    if over is not None:
        word = "cancelled" if over.name == "workflow.cancelled" else "over"
        raise ConfigError(f"it was {word} at event {over.seq}: {_advice(state)}")
    if state.finished or not state.token_count:
        if at < FIRST and not state.finished:
            message = f"nothing has begun at event {at}; the first to keep is {FIRST}"
            raise ConfigError(f"{message}, or begin anew with noetl run")
        raise ConfigError(f"{first.execution_id} never began: there is nothing to keep")


def _advice(state: State) -> str:
    failed = next((error["step"] for error in state.failures.values()), "STEP")
    retry = f"noetl retry {state.execution_id} --from {failed}"
    return f"keep fewer events, or go back to a step: {retry}"


def _last_firm(base: bytes, window: Sequence[Event]) -> int:
    state, firm = thaw(base), 0
    for event in window:
        evolve(state, event)
        if is_firm(state, event):
            firm = event.seq
    return firm


async def _events(log: Log, execution_id: str, at: int) -> AsyncIterator[Event]:
    after = 0
    while after < at:
        limit = min(PAGE, at - after)
        page = await log.read(execution_id, after=after, limit=limit)
        if not page:
            return
        for event in page:
            yield event
        after = page[-1].seq


async def find_admissions(log: Log, execution_id: str, step: str) -> list[int]:
    """The events by which the step was begun; if it never was, by which it was denied.

    What was cancelled while it ran is among them.
    """
    begun: list[int] = []
    denied: list[int] = []
    after = 0
    while page := await log.read(execution_id, after=after, limit=PAGE):
        for event in page:
            if event.step == step and event.name == "step.scheduled":
                begun.append(event.seq)
            elif event.step == step and event.name == "step.skipped":
                denied.append(event.seq)
        after = page[-1].seq
    return begun or denied
