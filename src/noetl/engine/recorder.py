"""One settlement: facts are made, numbered and folded one after the other."""

from __future__ import annotations

import msgspec

from noetl.dsl.model import Playbook
from noetl.engine.events import NAMES, TRIGGERS, Event, Source, Status
from noetl.engine.evolve import evolve
from noetl.engine.listening import notify
from noetl.engine.records import event_id, pack
from noetl.engine.references import PAYLOAD_LIMIT, Values
from noetl.engine.scope import Scope
from noetl.engine.secrets import Secrets
from noetl.engine.spilling import fit
from noetl.engine.state import State
from noetl.engine.times import rfc3339
from noetl.net.net import Net
from noetl.templates import Decision
from noetl.types import JSON


class Recorder:
    """What one input causes: the events of one append, all or none.

    Deciding functions ``emit``; the state follows at once by ``evolve``, so each
    decision sees what the ones before it did, and replay sees the same. ``bodies``
    are the events as they will be stored, ``blobs`` the values that were too large
    for them: the host stores those first.
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
        task_run_id: str | None = None,
        task_label: str | None = None,
        attempt: int | None = None,
        action_id: str | None = None,
    ) -> Event:
        """Record one fact and fold it."""
        kind = NAMES[name]
        seq = self.state.seq + 1
        execution_id = self.state.execution_id
        event = Event(  # by position: that takes a third of the time
            event_id(execution_id, seq),
            execution_id,
            seq,
            self.now,
            source or kind.source,
            name,
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
        if self.state.listeners:
            self._tell(event)
        return event

    def _tell(self, event: Event) -> None:
        pass

    def _spill(self, event: Event, size: int) -> Event:
        """The event with references for its largest values (S-48)."""
        payload, blobs = fit(event.payload, PAYLOAD_LIMIT, size)
        self.blobs |= blobs
        for key, body in blobs.items():
            self.values.put_encoded(key, body)
        return msgspec.structs.replace(event, payload=payload)


EVENT = 100
"""Steps of a template that take as long as an event does, until it is stored."""


class Batch(Recorder):
    """A settlement of an execution that has a playbook.

    Tokens and loops move until ``share`` steps are spent; what is left then is for
    another batch, and ``is_cut`` says so: others are served in between (I-38). By
    default there is no such limit.
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
    ) -> None:
        super().__init__(state, clock, values)
        self.secrets = secrets or Secrets()
        self.playbook = playbook
        self.net = net
        self.is_cut = False
        self._share = share
        self._spent = 0
        self._decision = Decision()
        self.hearing = Decision()

    def begin(self) -> None:
        """Another input is decided: all guards that hear of it share one budget."""
        self._spent += self.hearing.spent
        self.hearing = Decision()

    def may_move(self) -> bool:
        """Whether to go on with what is ready; if not, the batch is cut here."""
        spent = self._spent + self._decision.spent + self.hearing.spent
        spent += EVENT * len(self.events)
        if self._share is None or spent < self._share:
            return True
        self.is_cut = True
        return False

    def _tell(self, event: Event) -> None:
        """Who waits for events is asked about this one."""
        if event.name in TRIGGERS:
            notify(self, event)

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
            execution={"started_at": state.began_at},
        )
        if event is not None:
            scope["event"] = event
        self._spent += self._decision.spent
        scope.decision = self._decision = Decision()
        scope.hold(self.secrets, self.values.begin() if state.spilled else None)
        return scope
