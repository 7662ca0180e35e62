"""Builds the transition of a commit: events, commands, timers and the summary."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from noetl.engine.decide import SETTLE
from noetl.engine.effects import Effects
from noetl.engine.events import Event
from noetl.engine.recorder import Batch, Recorder
from noetl.engine.state import State, standing_of, status_of
from noetl.engine.times import seconds_of
from noetl.engine.waits.resume import children_of
from noetl.ports import (
    Append,
    Command,
    CommandChanges,
    ConcurrencySlot,
    Grant,
    Lease,
    Reports,
    Summary,
    Timer,
    TimerChanges,
    Transition,
    export_timer,
)
from noetl.runtime.executions.loaded import InboxItem, LoadedExecution
from noetl.runtime.executions.placement import Placement
from noetl.runtime.executions.snapshots import seal
from noetl.types import JSON

ADMIT_TIMER = "place"
"""The timer of an execution that waits for its concurrency key: try to admit it."""
_PLACED = frozenset({"workflow.started", "workflow.admitted"})

CHILD_START_TIMEOUT_S = 5.0
"""After this time another server starts a child that its caller has not started."""

_SLOT = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z")
SNAPSHOT_EVERY = 5_000
"""Events between two snapshots: a restart folds no more than these."""


def transition_of(
    loaded: LoadedExecution,
    batch: Batch,
    effects: Effects,
    after: int,
    planned: Sequence[Command],
    placement: Placement,
    now: float,
    items: Sequence[InboxItem] = (),
    granted: Sequence[Lease] = (),
) -> Transition:
    """Build the transition of a batch: one commit of the store."""
    held = [item for item in items if item.answer is not None and item.lease]
    state, execution_id = loaded.state, loaded.state.execution_id
    over = set(effects.over)
    timers, theirs = relative_timers(placement, loaded, effects, now)
    if state.finished and batch.events:
        path = loaded.about.get("path")
        timers += finished_timers(placement, execution_id, path, now)
    disarmed = [item.disarm for item in items if item.disarm]
    timers += admit_timers(batch, now)
    if batch.is_cut:  # another process continues it if this one is lost
        timers.append(Timer(execution_id, SETTLE, now, "deadline"))
    lineage, snapshot = lineage_of(state), None
    is_due = state.seq - loaded.saved >= SNAPSHOT_EVERY and not state.finished
    if is_due and batch.events:
        snapshot, loaded.saved = seal(state, batch.events[-1]), state.seq
    return Transition(
        execution_id=execution_id,
        log=Append(after, batch.events, batch.bodies, snapshot=snapshot),
        summary=Summary(
            execution_id,
            status_of(state),
            loaded.about,
            state.started_at,
            batch.now if state.finished else None,
            state.error,
            (state.parent or {}).get("execution_id"),
            lineage,
            standing_of(state),
            state.ignored,
            state.not_reached,
            state.labels,
            firing_of(state),
        ),
        reports=Reports(
            [item.lease for item in held if item.lease],
            {
                item.lease.command_id: item.number
                for item in held
                if item.lease and item.number and item.lease.command_id not in over
            },
        ),
        commands=CommandChanges(
            planned=planned,
            grant=Grant(granted, now + placement.ttl) if granted else None,
            ended=effects.over,
            released=[*effects.parked, *_left(held)],
        ),
        timers=TimerChanges(
            armed=[
                Timer(execution_id, name, due, "deadline")
                for name, due in effects.timers.items()
            ]
            + timers,
            disarmed=disarmed,
            relatives=theirs,
        ),
        slot=slot_of(state, batch.events, looked=ADMIT_TIMER in disarmed),
        request_key=loaded.request_key if after == 0 else None,
    )


def slot_of(
    state: State, events: Sequence[Event], *, looked: bool = False
) -> ConcurrencySlot | None:
    """Return the new row of its concurrency key; None if it does not change.

    ``looked`` says that the commit disarms the timer ``ADMIT_TIMER``.
    """
    concurrency = state.concurrency
    if concurrency is None:
        return None
    changed = any(event.name in _PLACED for event in events)
    if not (changed or state.finished or looked):
        return None
    queued = state.queued is not None
    return ConcurrencySlot(concurrency.place, concurrency.limit, queued)


def admit_timers(batch: Batch, now: float) -> list[Timer]:
    """Return the timer of a queued execution that tries to admit it."""
    queued = batch.state.queued is not None
    if not queued or all(event.name != "workflow.queued" for event in batch.events):
        return []
    return [Timer(batch.state.execution_id, ADMIT_TIMER, now, "place")]


def finished_timers(
    placement: Placement, execution_id: str, path: str | None, now: float
) -> list[Timer]:
    """Return the timers that lead to the completion handlers, if one waits, and to the
    exports."""
    timers = [export_timer(execution_id, name, now) for name in placement.exports]
    if placement.is_awaited(path):
        timers.append(Timer(execution_id, "finished", now, "finished"))
    return timers


def relative_timers(
    placement: Placement, loaded: LoadedExecution, effects: Effects, now: float
) -> tuple[list[Timer], list[Timer]]:
    """Return the timers of the execution, for children that it calls, and those of
    its relatives, which must check what happened to it."""
    if not placement.shared:
        return [], []
    state = loaded.state
    late = now + CHILD_START_TIMEOUT_S
    mine = [
        Timer(state.execution_id, f"child:{name}", late, "family")
        for name in effects.children
    ]
    theirs = []
    if state.finished and state.parent is not None:
        caller, name = state.parent["execution_id"], state.parent["command_id"]
        theirs.append(Timer(caller, f"child:{name}", now, "family"))
    if loaded.children:
        awaited = {child["execution_id"] for _, child in children_of(state)}
        theirs += [
            Timer(child_id, "parent", now, "family")
            for child_id in loaded.children
            if child_id not in awaited
        ]
    return mine, theirs


def _left(items: Sequence[InboxItem]) -> Iterator[str]:
    """Return pipelines that their workers must leave; ended ones stay ended."""
    for item in items:
        if item.lease is not None and item.answer is not None and item.answer.stop:
            yield item.lease.command_id


def lineage_of(state: State) -> dict[str, JSON] | None:
    """Return the origin of a fork, as listings show it."""
    if state.fork is None:
        return None
    return {"execution_id": state.fork["execution_id"], "seq": state.fork["seq"]}


def firing_of(state: State) -> dict[str, JSON] | None:
    """Return the trigger of an execution, as listings show it: its name, and the slot
    of a schedule. The key of a delivery is text of its sender, and not shown."""
    if state.trigger is None:
        return None
    slot = state.trigger.get("slot")
    is_time = isinstance(slot, str) and _SLOT.fullmatch(slot) is not None
    return {"name": state.trigger.get("name"), "slot": slot if is_time else None}


def rejection_of(
    recorder: Recorder,
    playbook: dict[str, JSON],
    request_key: str | None = None,
    placement: Placement | None = None,
) -> Transition:
    """Build the transition of a rejected request."""
    state = recorder.state
    placement, now = placement or Placement(), seconds_of(recorder.now)
    return Transition(
        execution_id=state.execution_id,
        log=Append(0, recorder.events, recorder.bodies),
        summary=Summary(
            state.execution_id,
            state.status,
            playbook,
            state.started_at,
            recorder.now,
            state.error,
            (state.parent or {}).get("execution_id"),
            lineage_of(state),
            labels=state.labels,
            trigger=firing_of(state),
        ),
        timers=TimerChanges(
            finished_timers(placement, state.execution_id, playbook.get("path"), now)
        ),
        request_key=request_key,
    )
