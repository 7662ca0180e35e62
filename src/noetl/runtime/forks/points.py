"""Starting points of forks: a position in a log, and the state there."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from functools import partial
from typing import Protocol

import msgspec

from noetl.engine.events import Event
from noetl.engine.evolve import evolve, replay
from noetl.engine.forks import is_firm, is_idle
from noetl.engine.state import State
from noetl.engine.undone import Undone, Unwinding, number_of
from noetl.errors import ConfigError
from noetl.net.net import Net
from noetl.ports import LogVerifier
from noetl.runtime.executions.loaded import EVENTS_PER_READ, freeze, thaw
from noetl.runtime.values.ownership import Events

MAX_DECISION_EVENTS = 64
"""Events within which a complete decision is found: decisions are far shorter."""

FIRST_WORK_SEQ = 3
"""The event with which work begins, after requested and evaluated."""


class Log(Events, LogVerifier, Protocol):
    """The store of the fork's origin; it is only read."""


class Point(msgspec.Struct, frozen=True):
    """The first ``seq`` events are kept and fold to ``state``; ``first`` is event 1.
    ``undone`` are those that do not count."""

    execution_id: str
    seq: int
    first: Event
    state: State

    @property
    def undone(self) -> Undone | None:
        undone = self.state.undone
        return msgspec.structs.replace(undone, last=self.seq) if undone else None


class Start(msgspec.Struct, frozen=True):
    """The last event to keep; ``undone`` as in ``Fork``."""

    at: int
    undone: Undone | None = None


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
        if event is first and start.undone is not None:
            state.undone = start.undone
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
    if is_idle(state):
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


class Failures:
    """The unhandled failures of a finished execution, and its loops that went on past
    failed iterations. ``take`` all events in order.

    ``at`` is the last event before the end.
    """

    def __init__(self) -> None:
        self.at = 0
        self._state = State()
        self._unhandled: list[str] = []
        self._partial: dict[str, bool] = {}

    @property
    def position(self) -> int:
        return self._state.seq

    def take(self, event: Event) -> None:
        state, run = self._state, event.step_run_id or ""
        if event.name == "workflow.finished" and state.cancelling is None:
            self.at = event.seq - 1
            self._unhandled = list(state.failures)
        evolve(state, event)
        if state.undone is not None and state.undone.covers(event):
            return
        if event.name == "loop.iteration.failed":
            self._partial[run] = True
        elif event.name == "step.failed":
            self._partial.pop(run, None)

    @property
    def found(self) -> list[str]:
        if not self.at:
            return []
        return list(dict.fromkeys([*self._partial, *self._unhandled]))


async def find_failures(log: Log, execution_id: str, net: Net | None) -> Start:
    """Return the start that keeps all but the end, and what followed from failures.

    Raises ``ConfigError`` if there are none.
    """
    failures = Failures()
    while page := await log.read(
        execution_id, after=failures.position, limit=EVENTS_PER_READ
    ):
        for event in page:
            failures.take(event)
    found = failures.found
    if found:
        undone = await unwind(log, execution_id, failures.at, found, net, keep=True)
        return Start(failures.at, undone)
    message = f"no step of {execution_id} has an unhandled failure, and no loop has"
    raise ConfigError(
        f"{message} failed iterations; name the step to begin with: --from STEP"
    )


async def unwind(
    log: Log,
    execution_id: str,
    at: int,
    targets: Sequence[str],
    net: Net | None,
    *,
    keep: bool,
) -> Undone:
    """Return the events up to ``at`` that do not count if the targets run again: their
    own and all that followed. With ``keep``, finished iterations of loops are kept.
    """
    earlier: Undone | None = None
    unwinding: Unwinding | None = None
    tokens: dict[str, list[int]] = {}
    kept: list[int] = []
    async for event in _events(log, execution_id, at):
        if unwinding is None:
            earlier = Undone.of(event)
            unwinding = Unwinding(targets, earlier, partial(_is_missing, net))
        unwinding.take(event)
        if event.name == "step.scheduled":
            number = number_of(event.entity_id)
            mine = tokens.setdefault(event.payload["tokens"][0], [])
            if event.entity_id in targets and keep:
                kept += [number, *mine]
            if unwinding.covers(event):
                mine.clear()
            elif earlier is not None and number in earlier.keep:
                mine.append(number)
    assert unwinding is not None
    still = [number for numbers in tokens.values() for number in numbers]
    return unwinding.end(at, [*kept, *still])


def _is_missing(net: Net | None, step: str, sources: set[str], live: set[str]) -> bool:
    """Return whether the join of the step would wait for a source that has not come,
    if the ``live`` steps had tokens."""
    if net is None or step not in net.steps:
        return False
    missing = [each for each in net.sources(step) if each not in sources]
    return any(
        net.can_deliver(source, step, at)
        for source in missing
        for at in live
        if at in net.steps
    )


async def find_admissions(
    log: Log, execution_id: str, step: str
) -> tuple[list[str], int]:
    """Return the runs of the step, or else the tokens that it denied; and the last
    event before the end.

    Runs that were cancelled are among them.
    """
    begun: list[str] = []
    denied: list[str] = []
    undone: Undone | None = None
    after, end = 0, 0
    while page := await log.read(execution_id, after=after, limit=EVENTS_PER_READ):
        for event in page:
            if event.seq == 1:
                undone = Undone.of(event)
            if undone is not None and undone.covers(event):
                continue
            if event.name in ("workflow.cancelled", "workflow.finished"):
                end = end or event.seq
            elif event.step == step and event.name == "step.scheduled":
                begun.append(event.entity_id)
            elif event.step == step and event.name == "step.skipped":
                denied.append(event.entity_id)
        after = page[-1].seq
    return begun or denied, (end or after + 1) - 1
