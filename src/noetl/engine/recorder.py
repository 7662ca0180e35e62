"""Batches: the events of one decision, numbered, folded and stored together."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import msgspec

from noetl.dsl.model import Playbook, Step
from noetl.engine.event_codec import pack
from noetl.engine.events import Event, EventType, Source, Status
from noetl.engine.evolve import evolve
from noetl.engine.runs import Run
from noetl.engine.secrets.handles import Secrets
from noetl.engine.state import State
from noetl.engine.tasks.scope import Scope
from noetl.engine.times import rfc3339
from noetl.engine.values.references import PAYLOAD_LIMIT, Values
from noetl.engine.values.spilling import fit
from noetl.engine.waits.resume import announce
from noetl.net.net import Net
from noetl.templates import Decision
from noetl.types import JSON

P = TypeVar("P")


class Recorder:
    """The events that one input causes: one append, all or none.

    Deciding functions call ``emit``; ``evolve`` folds each event at once, so that every
    decision sees the ones before it, and replay sees the same. ``bodies`` are the
    events as they will be stored. ``blobs`` are the values that were too large for
    them; the host stores those first.
    """

    def __init__(
        self, state: State, clock: float = 0.0, values: Values | None = None
    ) -> None:
        self.state = state
        self.clock = clock
        self.now = rfc3339(clock)
        self.values = values or Values()
        self.events: list[Event] = []
        self.bodies: list[bytes] = []
        self.blobs: dict[str, bytes] = {}

    def emit(
        self,
        kind: EventType[P],
        entity_id: str,
        payload: P,
        *,
        parent_id: str | None = None,
        status: Status | None = None,
        source: Source | None = None,
        step: str | None = None,
        step_run_id: str | None = None,
        iteration_id: str | None = None,
        task_run_id: str | None = None,
        task_label: str | None = None,
        attempt: int | None = None,
        action_id: str | None = None,
    ) -> Event:
        """Record one event and fold it into the state."""
        seq = self.state.seq + 1
        execution_id = self.state.execution_id
        event = Event(  # by position: that takes a third of the time
            f"{execution_id}.{seq}",
            execution_id,
            seq,
            self.now,
            source or kind.source,
            kind.name,
            kind.entity,
            entity_id,
            parent_id,
            status or kind.status,
            step,
            step_run_id,
            iteration_id,
            task_run_id,
            task_label,
            attempt,
            action_id,
            payload,
        )
        body = pack(event)
        if len(body) > PAYLOAD_LIMIT:
            event = self._spill(event, len(body))
            body = pack(event)
        self.events.append(event)
        self.bodies.append(body)
        evolve(self.state, event)
        return event

    def _spill(self, event: Event, size: int) -> Event:
        """Return the event with references in place of its largest values (S-48)."""
        payload, blobs = fit(event.payload, PAYLOAD_LIMIT, size)
        self.blobs |= blobs
        for key, body in blobs.items():
            self.values.put_encoded(key, body)
        return msgspec.structs.replace(event, payload=payload)


def step_run_id(execution_id: str, number: int) -> str:
    """Return the id of the ``number``-th admitted firing of an execution, from 1."""
    return f"{execution_id}-{number}"


def token_id(execution_id: str, number: int) -> str:
    """Return the id of the ``number``-th token of an execution, from 1."""
    return f"{execution_id}.t{number}"


Refusal = Callable[[Step], dict[str, JSON] | None]
"""Returns the error of a step that the operator does not allow, or None."""

EVENT = 100
"""Template steps that take as much time as one event does until it is stored."""


class Batch(Recorder):
    """A batch of an execution that has a playbook.

    Tokens and loops move until ``share`` steps are spent; the rest is left for another
    batch, and ``is_cut`` is set, so that other executions are served in between (I-38).
    By default there is no such limit. A step for which ``refusal`` returns an error
    fails before it begins.
    """

    def __init__(
        self,
        playbook: Playbook,
        net: Net,
        state: State,
        clock: float = 0.0,
        values: Values | None = None,
        secrets: Secrets | None = None,
        share: int | None = None,
        refusal: Refusal = lambda step: None,
    ) -> None:
        super().__init__(state, clock, values)
        self.secrets = secrets or Secrets()
        self.playbook = playbook
        self.net = net
        self.is_cut = False
        self.refusal = refusal
        self._share = share
        self._spent = 0
        self._decision = Decision()
        self.wait_conditions = Decision()

    def emit_step(
        self, run: Run, kind: EventType[P], payload: P, source: Source
    ) -> None:
        """Record and announce the beginning or the end of a step run."""
        event = self.emit(
            kind,
            run.id,
            payload,
            source=source,
            parent_id=self.state.execution_id,
            step=run.step,
            step_run_id=run.id,
        )
        if self.state.listeners:
            announce(self, event)

    def begin(self) -> None:
        """Begin another input: all guards that it triggers share one budget."""
        self._spent += self.wait_conditions.spent
        self.wait_conditions = Decision()

    def may_move(self) -> bool:
        """Return whether the batch may continue; if not, mark it as cut."""
        spent = self._spent + self._decision.spent + self.wait_conditions.spent
        spent += EVENT * len(self.events)
        if self._share is None or spent < self._share:
            return True
        self.is_cut = True
        return False

    def scope(
        self, args: dict[str, JSON], event: dict[str, JSON] | None = None
    ) -> Scope:
        """Return the scope of the server's templates: arcs, admission, ``loop.in``."""
        state = self.state
        began_at = state.fork["started_at"] if state.fork else state.started_at
        scope = Scope(
            workload=state.workload,
            ctx=state.ctx,
            args=args,
            execution_id=state.execution_id,
            execution={"started_at": began_at},
            keychain=self.secrets.keychain,
        )
        if event is not None:
            scope["event"] = event
        self._spent += self._decision.spent
        scope.decision = self._decision = Decision()
        if state.spilled or not self.secrets.is_empty:
            scope.hold(self.secrets, self.values.begin() if state.spilled else None)
        return scope
