"""Snapshots: what the log adds up to at a position, and whether that may be believed.

A snapshot begins with a line that names its execution and position, the event there,
the shape of the states that made it, and the hash of its body. What does not fit is not
used: the log is folded from its beginning, which says the same and takes longer.
Snapshots of versions before this line are checked for execution and position alone.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import cache
from hashlib import sha256

import msgspec

from noetl.engine.event_codec import pack
from noetl.engine.events import Event
from noetl.engine.evolve import replay
from noetl.engine.state import State
from noetl.ports import LogReader, Snapshot
from noetl.runtime.executions.loaded import EVENTS_PER_READ, freeze, thaw

log = logging.getLogger("noetl.snapshots")

VERSION = 1
"""Raised if ``evolve`` adds the same events up to another state of the same shape."""


class _Seal(msgspec.Struct):
    """The first line of a snapshot."""

    snapshot: str
    execution_id: str
    seq: int
    event: str
    body: str


class Refusals:
    """Counts the snapshots that this process has refused."""

    count = 0


refusals = Refusals()


@cache
def shape() -> str:
    """Return the version and shape of states: another release may have other ones."""
    schema = msgspec.json.encode(msgspec.json.schema(State), order="sorted")
    return f"{VERSION}.{sha256(schema).hexdigest()[:16]}"


def seal(state: State, last: Event) -> bytes:
    """Return the snapshot of a state after its last event."""
    body = freeze(state)
    line = _Seal(
        shape(), state.execution_id, last.seq, _hash_of(last), sha256(body).hexdigest()
    )
    return msgspec.json.encode(line) + b"\n" + body


def body_of(snapshot: bytes) -> bytes:
    """Return the state inside of a snapshot, of any version."""
    line, end, body = snapshot.partition(b"\n")
    return body if end and line.startswith(b'{"snapshot"') else snapshot


def open_snapshot(
    execution_id: str, snapshot: Snapshot, last: Event | None
) -> tuple[State | None, str]:
    """Return the state, or None and why it is wrong; one of another shape is not wrong,
    and not used either. ``last`` is the event of the log at the position of the
    snapshot, if there is one."""
    body = body_of(snapshot.body)
    if last is None or last.seq != snapshot.seq:
        return None, f"the log has no event {snapshot.seq}"
    try:
        if body is not snapshot.body:
            wrong = _flaw(execution_id, snapshot, body, last)
            if wrong is not None:
                return None, wrong
        state = thaw(body)
    except ValueError as error:
        return None, f"it cannot be decoded: {error}"
    if (state.execution_id, state.seq) != (execution_id, snapshot.seq):
        return None, f"it is of event {state.seq} of {state.execution_id}"
    return state, ""


def _flaw(
    execution_id: str, snapshot: Snapshot, body: bytes, last: Event
) -> str | None:
    line = msgspec.json.decode(snapshot.body[: -len(body) - 1], type=_Seal)
    if line.snapshot != shape():
        return ""
    if (line.execution_id, line.seq) != (execution_id, snapshot.seq):
        return f"it is of event {line.seq} of {line.execution_id}"
    if line.event != _hash_of(last):
        return f"it follows another event {last.seq} than the log has"
    if line.body != sha256(body).hexdigest():
        return "its bytes have changed"
    return None


def _hash_of(event: Event) -> str:
    place = f"{event.execution_id} {event.seq} ".encode()
    return sha256(place + pack(event)).hexdigest()[:32]


def refuse(execution_id: str, seq: int, why: str) -> None:
    """Count and log a wrong snapshot."""
    refusals.count += 1
    about = {"execution_id": execution_id}
    message = "the snapshot of %s at event %s is not used: %s; its log is read instead"
    log.warning(message, execution_id, seq, why, extra=about)


async def read_snapshot(
    store: LogReader, execution_id: str, most: int = EVENTS_PER_READ
) -> tuple[State, Sequence[Event]]:
    """Return the state of the snapshot, and the events that follow it, at most so many;
    or the state before the first event, and the first events."""
    snapshot = await store.snapshot(execution_id)
    if snapshot is not None:
        after = snapshot.seq - 1
        events = await store.read(execution_id, after=after, limit=most + 1)
        last = events[0] if events else None
        state, why = open_snapshot(execution_id, snapshot, last)
        if state is not None:
            return state, events[1:]
        if why:
            refuse(execution_id, snapshot.seq, why)
    return State(), await store.read(execution_id, after=0, limit=most)


# -- folds -----------------------------------------------------------------------


async def fold(store: LogReader, execution_id: str) -> State:
    """Fold the state from the last snapshot in the store and the events after it."""
    state, _ = await fold_with_snapshot(store, execution_id)
    return state


async def fold_with_snapshot(store: LogReader, execution_id: str) -> tuple[State, int]:
    """Return the state, and the position of the snapshot that it was folded from."""
    state, events = await read_snapshot(store, execution_id)
    saved = state.seq
    while True:
        replay(events, state)
        if len(events) < EVENTS_PER_READ:
            return state, saved
        events = await store.read(execution_id, after=state.seq, limit=EVENTS_PER_READ)


async def catch_up(store: LogReader, execution_id: str, state: State) -> State:
    """Apply the events that another server may have committed; from a snapshot, if
    they are many."""
    events = await store.read(execution_id, after=state.seq, limit=EVENTS_PER_READ)
    if len(events) == EVENTS_PER_READ:
        return await fold(store, execution_id)
    return replay(events, state)
