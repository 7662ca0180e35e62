"""A settlement as the store takes it: events, and what they make due."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from noetl.engine.batch import Batch, Recorder
from noetl.engine.decide import SETTLE
from noetl.engine.document import standing_of
from noetl.engine.effects import Effects
from noetl.engine.events import Event
from noetl.engine.runs import status_of
from noetl.engine.state import State
from noetl.engine.times import NEVER, seconds_of
from noetl.ports import Command, Grant, Place, Summary, Timer, Transition
from noetl.runtime.live import Input, Live, freeze
from noetl.runtime.planning import Planner
from noetl.types import JSON

LOOK = "place"
"""The timer of an execution that waits for a place: it may be its turn."""
_PLACED = frozenset({"workflow.started", "workflow.admitted"})

SNAPSHOT_EVERY = 10_000
"""Events between two snapshots: what a restart folds at most."""


def transition_of(
    live: Live,
    batch: Batch,
    effects: Effects,
    after: int,
    planner: Planner,
    inputs: Sequence[Input],
    grant: Grant | None,
) -> Transition:
    held = [each for each in inputs if each.answer is not None and each.lease]
    state, execution_id = live.state, live.state.execution_id
    over = set(effects.over)
    commands = [
        Command(
            name,
            execution_id,
            planner.pool_of(live, name),
            due,
            planner.together_of(live, name),
        )
        for name, due in _planned(effects)
        if name not in over
    ]
    now = seconds_of(batch.now)
    called, told = planner.family_of(live, effects, now)
    if state.finished and batch.events:
        called += planner.hearing(execution_id, live.about.get("path"), now)
    disarmed = [each.disarm for each in inputs if each.disarm]
    called += looking_of(batch, now)
    if batch.is_cut:  # so that it goes on, whatever becomes of this process
        called.append(Timer(execution_id, SETTLE, now, "deadline"))
    snapshot = None
    if state.seq - live.saved >= SNAPSHOT_EVERY and not state.finished:
        snapshot, live.saved = freeze(state), state.seq
    return Transition(
        execution_id=execution_id,
        after=after,
        events=batch.events,
        bodies=batch.bodies,
        summary=Summary(
            execution_id,
            status_of(state),
            live.about,
            state.started_at,
            batch.now if state.finished else None,
            state.error,
            (state.parent or {}).get("execution_id"),
            lineage_of(state),
            standing_of(state),
        ),
        leases=[each.lease for each in held if each.lease],
        reported={
            each.lease.command_id: each.number
            for each in held
            if each.lease and each.number and each.lease.command_id not in over
        },
        commands=commands,
        grant=grant,
        done=effects.over,
        release=[*effects.parked, *_left(held)],
        timers=[
            Timer(execution_id, name, due, "deadline")
            for name, due in effects.timers.items()
        ]
        + called,
        notify=told,
        disarm=disarmed,
        snapshot=snapshot,
        request_key=live.request_key if after == 0 else None,
        place=place_of(state, batch.events, looked=LOOK in disarmed),
    )


def place_of(
    state: State, events: Sequence[Event], *, looked: bool = False
) -> Place | None:
    """What becomes of its place, if the events change it, or it was ``looked`` for."""
    concurrency = state.concurrency
    if concurrency is None:
        return None
    changed = any(event.name in _PLACED for event in events)
    if not (changed or state.finished or looked):
        return None
    return Place(concurrency.place, concurrency.limit, state.queued is not None)


def looking_of(batch: Batch, now: float) -> list[Timer]:
    """Whoever waits for a place looks once what is before it."""
    if not any(event.name == "workflow.queued" for event in batch.events):
        return []
    return [Timer(batch.state.execution_id, LOOK, now, "place")]


def _planned(effects: Effects) -> Iterator[tuple[str, float]]:
    for name in effects.ready:
        yield name, 0.0
    yield from effects.parked.items()


def _left(inputs: Sequence[Input]) -> Iterator[str]:
    """Pipelines that their workers were told to leave; if over, they stay over."""
    for each in inputs:
        if each.lease is not None and each.answer is not None and each.answer.stop:
            yield each.lease.command_id


def moments_of(effects: Effects) -> list[float]:
    """When somebody must look again."""
    moments = [due for due in effects.parked.values() if 0 < due < NEVER]
    return moments + list(effects.timers.values())


def lineage_of(state: State) -> dict[str, JSON] | None:
    """Whose events the log begins with, as listings show it."""
    if state.fork is None:
        return None
    return {"execution_id": state.fork["execution_id"], "seq": state.fork["seq"]}


def rejection_of(
    recorder: Recorder,
    playbook: dict[str, JSON],
    request_key: str | None = None,
    planner: Planner | None = None,
) -> Transition:
    state = recorder.state
    planner, now = planner or Planner(), seconds_of(recorder.now)
    return Transition(
        execution_id=state.execution_id,
        after=0,
        events=recorder.events,
        bodies=recorder.bodies,
        summary=Summary(
            state.execution_id,
            state.status,
            playbook,
            state.started_at,
            recorder.now,
            state.error,
            (state.parent or {}).get("execution_id"),
            lineage_of(state),
        ),
        timers=planner.hearing(state.execution_id, playbook.get("path"), now),
        request_key=request_key,
    )
