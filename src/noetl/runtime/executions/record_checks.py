"""Checks of the rows that a store keeps beside a log, against what the log says."""

from __future__ import annotations

from collections.abc import Iterator

from noetl.engine.events import Event
from noetl.engine.invariants import Breach
from noetl.engine.runs import Waiting, iteration_id, pipelines
from noetl.engine.state import State, standing_of, status_of
from noetl.engine.times import NEVER, seconds_of
from noetl.engine.undone import number_of
from noetl.ports import CommandRecord, Records, Snapshot, Timer
from noetl.runtime.executions.loaded import freeze
from noetl.runtime.executions.mending import deadlines_of
from noetl.runtime.executions.snapshots import open_snapshot
from noetl.types import JSON

PRECISION_S = 0.01
"""Seconds by which a stored time may differ from the time in the log."""
_OTHERS = frozenset({"settle", "parent", "place"})


def check_records(
    state: State, records: Records, now: float | None = None
) -> Iterator[Breach]:
    """Yield what contradicts the state that the log adds up to at the same position.

    ``now`` is the time of a live store: a wait must not end before.
    """
    if records.last_seq != state.seq:
        message = f"the record of the execution ends at event {records.last_seq}"
        yield Breach("I-04", state.seq, message, f"event {state.seq}, as its log")
        return
    found = [*_summary(state, records), *_commands(state, records, now)]
    found += [*_timers(state, records), *_slot(state, records)]
    for invariant, message, expected in found:
        yield Breach(invariant, state.seq, message, expected)


Found = tuple[str, str, str]
"""Invariant, what was found, what was expected."""


def _summary(state: State, records: Records) -> Iterator[Found]:
    """I-07: listings say of an execution what its log says."""
    line = records.summary
    told: dict[str, JSON] = {}
    true: dict[str, JSON] = {}
    if records.status != line.status:
        found = f"listings find it as {records.status}"
        yield "I-07", found, f"{line.status}, as its line says"
    if line.status != "quarantined":  # set aside, until somebody resumes it
        told = {"status": line.status, "error": line.error}
        true = {"status": status_of(state), "error": state.error}
    told |= {
        "finished": line.finished_at is not None,
        "started_at": line.started_at,
        "ignored_errors": line.ignored_errors,
        "not_reached": line.not_reached,
        "labels": line.labels,
        "concurrency": line.concurrency,
    }
    true |= {
        "finished": state.finished,
        "started_at": state.started_at,
        "ignored_errors": state.ignored,
        "not_reached": state.not_reached,
        "labels": state.labels,
        "concurrency": standing_of(state),
    }
    for name, value in told.items():
        if value != true[name]:
            found = f"the listing has {name} {value}"
            yield "I-07", found, f"{true[name]}, as the log says"


# -- commands and leases ---------------------------------------------------------


def _commands(state: State, records: Records, now: float | None) -> Iterator[Found]:
    """I-16, I-18: each open pipeline has one command, and nothing else has one."""
    waits: dict[str, Waiting | None] = {}
    for run in state.runs.values():
        for path, progress in pipelines(run):
            waits[iteration_id(run.id, path)] = progress.waiting
    known = {row.command_id: row for row in records.commands}
    for name in waits.keys() - known.keys():
        found = f"the open pipeline {name} has no command"
        yield "I-18", found, "a command that a worker can claim"
    for name, row in known.items():
        yield from _lease(row)
        if name not in waits:
            held = f", leased to {row.owner}" if row.state == "leased" else ""
            found = f"there is a command {name}{held}"
            yield "I-16", found, "none: the log has no such open pipeline"
        else:
            yield from _wait(row, waits[name], now)


def _lease(row: CommandRecord) -> Iterator[Found]:
    """I-16: a lease has an owner, an epoch and an end."""
    leased = row.state == "leased"
    if leased and (row.owner is None or row.expires_at is None or row.epoch < 1):
        found = f"the lease on {row.command_id} has owner {row.owner}"
        yield "I-16", f"{found}, epoch {row.epoch}, end {row.expires_at}", "all three"
    if not leased and row.owner is not None:
        found = f"{row.command_id} is {row.state}, and owned by {row.owner}"
        yield "I-16", found, "no owner without a lease"


def _wait(
    row: CommandRecord, waiting: Waiting | None, now: float | None
) -> Iterator[Found]:
    """I-50: a pipeline that waits holds no lease, and is offered at its time."""
    name = row.command_id
    if waiting is None or waiting.answer is not None:
        if row.state == "delayed":
            found = f"{name} is delayed until {row.not_before}"
            yield "I-50", found, "offered now: the log has no wait of it"
        return
    due = NEVER if waiting.until is None else seconds_of(waiting.until)
    if row.state == "delayed":
        if abs(row.not_before - due) > PRECISION_S:
            found = f"{name} is delayed until {row.not_before}"
            yield "I-50", found, f"until {due}, as the log says"
    elif waiting.until is None or (now is not None and due > now):
        found = f"{name} is {row.state}, and waits for its {waiting.on}"
        yield "I-50", found, f"delayed until {due}"


# -- timers, slots ---------------------------------------------------------------


def _timers(state: State, records: Records) -> Iterator[Found]:
    """I-28: there is a timer for each moment that the log waits for, and no other."""
    expected = dict(deadlines_of(state))
    known = {timer.timer_id: timer for timer in records.timers}
    for name, due in expected.items():
        timer = known.get(name)
        if timer is None and state.status == "running" and state.cancelling is None:
            yield "I-28", f"there is no timer {name}", f"one that is due at {due}"
        elif timer is not None and abs(timer.due_at - due) > PRECISION_S:
            found = f"the timer {name} is due at {timer.due_at}"
            yield "I-28", found, f"{due}, as the log says"
    for timer in records.timers:
        if timer.timer_id not in expected and not _may_be(state, timer):
            found = f"there is a timer {timer.timer_id}, due at {timer.due_at}"
            yield "I-28", found, "none: the log waits for no such moment"


def _may_be(state: State, timer: Timer) -> bool:
    """Return whether a timer may be left: those of ended step runs are served and
    deleted when they are due."""
    name, kind = timer.timer_id, timer.kind
    outlives = kind in ("finished", "export")
    if state.finished or outlives:
        return state.finished and outlives
    what, _, rest = name.partition(":")
    if what == "child":
        return rest.startswith(f"{state.execution_id}-")
    if what != "step":
        return name in _OTHERS
    run, _, number = rest.rpartition("-")
    if run != state.execution_id or not number.isdecimal() or rest in state.runs:
        return False
    return 0 < number_of(rest) <= state.run_count


def _slot(state: State, records: Records) -> Iterator[Found]:
    """I-21: an open execution holds the slot that its log says, or waits for it."""
    slot, concurrency = records.slot, state.concurrency
    if state.finished:
        return
    if (slot is None) != (concurrency is None):
        words = ("no slot of a concurrency key", "a slot of a concurrency key")
        yield "I-21", f"it has {words[slot is not None]}", words[slot is None]
    elif slot is not None and concurrency is not None:
        told = (slot.key, slot.limit, slot.queued)
        true = (concurrency.place, concurrency.limit, state.queued is not None)
        if told != true:
            yield "I-21", f"its slot is {told} (key, limit, queued)", f"{true}"


# -- snapshots, and two looks at one store ---------------------------------------


def check_snapshot(state: State, body: bytes, last: Event) -> Iterator[Breach]:
    """Yield a breach if a snapshot is not the state after its last event (I-07)."""
    snapshot = Snapshot(state.seq, body)
    kept, why = open_snapshot(state.execution_id, snapshot, last)
    if kept is not None and freeze(kept) != freeze(state):
        why = "it is not what the log adds up to"
    if why:
        message = f"the snapshot at event {state.seq} is wrong: {why}"
        yield Breach("I-07", state.seq, message, "the state of the log")


def check_progress(before: Records, after: Records) -> Iterator[Breach]:
    """Yield what must not happen between two looks at one execution: epochs go up, a
    lease keeps its owner, the log does not get shorter."""
    if after.last_seq < before.last_seq:
        message = f"the log has {after.last_seq} events"
        yield Breach("I-04", after.last_seq, message, f"at least {before.last_seq}")
    known = {row.command_id: row for row in before.commands}
    for row in after.commands:
        old = known.get(row.command_id)
        if old is None:
            continue
        owners = {old.owner, row.owner} - {None}
        if row.epoch < old.epoch or (row.epoch == old.epoch and len(owners) > 1):
            message = f"{row.command_id} goes from {old.owner} at epoch {old.epoch} to "
            message += f"{row.owner} at epoch {row.epoch}"
            expected = "a higher epoch for another owner"
            yield Breach("I-16", after.last_seq, message, expected)
