"""One settlement: facts are made, numbered and folded one after the other."""

from __future__ import annotations

from noetl.dsl.model import Playbook
from noetl.engine.events import NAMES, Event, Source, Status
from noetl.engine.evolve import evolve
from noetl.engine.scope import Scope
from noetl.engine.state import State
from noetl.net.net import Net
from noetl.types import JSON


class Batch:
    """What one input causes: the events of one append, all or none.

    Deciding functions ``emit``; the state follows at once by ``evolve``, so each
    decision sees what the ones before it did, and replay sees the same.
    """

    def __init__(self, playbook: Playbook, net: Net, state: State, now: str) -> None:
        self.playbook = playbook
        self.net = net
        self.state = state
        self.now = now
        self.events: list[Event] = []

    def emit(
        self,
        name: str,
        entity_id: str,
        payload: dict[str, JSON],
        *,
        parent_id: str | None = None,
        status: Status | None = None,
        source: Source | None = None,
        step: str | None = None,
        step_run_id: str | None = None,
        iteration_id: str | None = None,
        **ids: JSON,
    ) -> Event:
        """Record one fact and fold it."""
        kind = NAMES[name]
        seq = self.state.seq + 1
        execution_id = self.state.execution_id
        event = Event(
            event_id=f"{execution_id}.{seq}",
            execution_id=execution_id,
            seq=seq,
            timestamp=self.now,
            source=source or kind.source,
            name=name,
            entity_type=kind.entity,
            entity_id=entity_id,
            parent_id=parent_id,
            status=status or kind.status,
            step=step,
            step_run_id=step_run_id,
            iteration_id=iteration_id,
            payload=payload,
            **ids,
        )
        self.events.append(event)
        evolve(self.state, event)
        return event

    def scope(
        self, args: dict[str, JSON], event: dict[str, JSON] | None = None
    ) -> Scope:
        """What the server's templates see: arcs, admission, ``loop.in``."""
        state = self.state
        scope = Scope(
            workload=state.workload,
            ctx=state.ctx,
            args=args,
            execution_id=state.execution_id,
            execution={"started_at": state.started_at},
        )
        if event is not None:
            scope["event"] = event
        return scope
