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
from noetl.types import JSON

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


class Start(msgspec.Struct, frozen=True):
    """The last event that shall be kept; ``again`` is that of ``Fork``."""

    at: int
    again: dict[str, dict[str, JSON]] = msgspec.field(default_factory=dict)


async def find_point(log: Log, execution_id: str, start: Start) -> Point:
    """The point at an event, or just before it if that is half a decision.

    Raises ``ConfigError`` where no fork can begin.
    """
    at = start.at
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
    if is_idle(state) and not start.again:
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


async def find_failures(log: Log, execution_id: str) -> Start:
    """Everything but the end, and the steps that failed with nobody to handle it.

    Raises ``ConfigError`` if none did.
    """
    state = State()
    taken: dict[str, dict[str, JSON]] = {}
    while page := await log.read(execution_id, after=state.seq, limit=PAGE):
        for event in page:
            if event.name in ("step.scheduled", "step.skipped"):
                taken[event.entity_id] = _token_of(state, event)
            elif event.name == "workflow.finished" and state.cancelling is None:
                again = {key: taken[key] for key in state.failures}
                if again:
                    return Start(event.seq - 1, again)
            evolve(state, event)
            name = event.step_run_id or event.entity_id
            if name not in state.runs and name not in state.failures:
                taken.pop(name, None)  # it is over, and well
    message = f"no step of {execution_id} has failed with nobody to handle it"
    raise ConfigError(f"{message}; say where to begin with --from STEP")


def _token_of(state: State, event: Event) -> dict[str, JSON]:
    """What a token must be to be admitted again as those were that the event took."""
    waiting = state.joining.get(event.step or "", {}).values()
    tokens = {token.id: token for queue in waiting for token in queue} | state.tokens
    last = tokens[event.payload["tokens"][-1]]
    return {"step": event.step, "args": event.payload["args"], "event": last.event}


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
