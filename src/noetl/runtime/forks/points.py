"""Starting points of forks: a position in a log, and the state there."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Protocol

import msgspec

from noetl.engine.events import Event
from noetl.engine.evolve import evolve, replay
from noetl.engine.forks import is_firm, is_idle
from noetl.engine.state import State
from noetl.errors import ConfigError
from noetl.ports import LogVerifier
from noetl.runtime.executions.loaded import EVENTS_PER_READ, freeze, thaw
from noetl.runtime.values.ownership import Events
from noetl.types import JSON

MAX_DECISION_EVENTS = 64
"""Events within which a complete decision is found: decisions are far shorter."""

FIRST_WORK_SEQ = 3
"""The event with which work begins, after requested and evaluated."""


class Log(Events, LogVerifier, Protocol):
    """The store of the fork's origin; it is only read."""


class Point(msgspec.Struct, frozen=True):
    """The first ``seq`` events are kept and fold to ``state``; ``first`` is event 1."""

    execution_id: str
    seq: int
    first: Event
    state: State


class Start(msgspec.Struct, frozen=True):
    """The last event to keep; ``again`` as in ``Fork``."""

    at: int
    again: dict[str, dict[str, JSON]] = msgspec.field(default_factory=dict)


async def find_point(log: Log, execution_id: str, start: Start) -> Point:
    """Return the point at an event, or before it if it is inside of a decision.

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
        if event.seq == max(1, at - MAX_DECISION_EVENTS):
            base = freeze(state)
        if base:
            window.append(event)
        evolve(state, event)
    if first is None or state.seq < at:
        raise ConfigError(f"there is no event {at}: the log has 1 to {state.seq}")
    _check_begun(first, state, over, at)
    firm = _last_firm(base, window)
    if firm < FIRST_WORK_SEQ:
        raise ConfigError(
            f"no step has begun at event {at}; the first to keep is {FIRST_WORK_SEQ}"
        )
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
    if damage.seq > FIRST_WORK_SEQ + 1:
        message += f"; the events before it can be kept: --at {damage.seq - 1}"
    raise ConfigError(message)


def _check_begun(first: Event, state: State, over: Event | None, at: int) -> None:
    if over is not None:
        word = "cancelled" if over.name == "workflow.cancelled" else "finished"
        raise ConfigError(
            f"the execution was {word} at event {over.seq}: {_advice(state)}"
        )
    if state.finished or not state.token_count:
        if at < FIRST_WORK_SEQ and not state.finished:
            message = f"no step has begun at event {at}; the first to keep is "
            raise ConfigError(
                f"{message}{FIRST_WORK_SEQ}, or begin anew with noetl run"
            )
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
        limit = min(EVENTS_PER_READ, at - after)
        page = await log.read(execution_id, after=after, limit=limit)
        if not page:
            return
        for event in page:
            yield event
        after = page[-1].seq


async def find_failures(log: Log, execution_id: str) -> Start:
    """Return the start that keeps all but the end and the steps with unhandled
    failures.

    Raises ``ConfigError`` if there are none.
    """
    state = State()
    taken: dict[str, dict[str, JSON]] = {}
    while page := await log.read(execution_id, after=state.seq, limit=EVENTS_PER_READ):
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
                taken.pop(name, None)  # it has completed
    message = f"no step of {execution_id} has an unhandled failure"
    raise ConfigError(f"{message}; name the step to begin with: --from STEP")


def _token_of(state: State, event: Event) -> dict[str, JSON]:
    """Return the token that repeats the admission of those that the event took."""
    waiting = state.joining.get(event.step or "", {}).values()
    tokens = {token.id: token for queue in waiting for token in queue} | state.tokens
    last = tokens[event.payload["tokens"][-1]]
    return {"step": event.step, "args": event.payload["args"], "event": last.event}


async def find_admissions(log: Log, execution_id: str, step: str) -> list[int]:
    """Return the events that admitted the step; if none did, those that denied it.

    Admissions that were cancelled while the step ran are among them.
    """
    begun: list[int] = []
    denied: list[int] = []
    after = 0
    while page := await log.read(execution_id, after=after, limit=EVENTS_PER_READ):
        for event in page:
            if event.step == step and event.name == "step.scheduled":
                begun.append(event.seq)
            elif event.step == step and event.name == "step.skipped":
                denied.append(event.seq)
        after = page[-1].seq
    return begun or denied
