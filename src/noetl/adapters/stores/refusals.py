"""Transitions that come too late: refused before anything is written."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from noetl.adapters.stores.queueing import takes_place
from noetl.errors import LeaseLost, LogConflict, NoPlace, RequestKnown, SetAside
from noetl.ports import Lease, Transition


class Conflict(LogConflict):
    """Says whose stream has moved."""

    def __init__(self, execution_id: str, after: int, last_seq: int) -> None:
        super().__init__(
            f"execution {execution_id} is at event {last_seq}, "
            f"this was decided after event {after}"
        )
        self.execution_id = execution_id


class Lost(LeaseLost):
    """Says which command has another owner, or none."""

    def __init__(self, lease: Lease) -> None:
        super().__init__(
            f"{lease.owner} does not hold command {lease.command_id} "
            f"at epoch {lease.epoch} any more"
        )
        self.execution_id = lease.execution_id
        self.command_id = lease.command_id


class Known(RequestKnown):
    """Says which request has an execution already."""

    def __init__(self, transition: Transition) -> None:
        super().__init__(f"request {transition.request_key} has an execution already")
        self.execution_id = transition.execution_id


class Aside(SetAside):
    """Says which execution is in quarantine."""

    def __init__(self, execution_id: str) -> None:
        super().__init__(f"execution {execution_id} is set aside")
        self.execution_id = execution_id


class Taken(NoPlace):
    """Says which key has no place left."""

    def __init__(self, transition: Transition) -> None:
        assert transition.place is not None
        key, limit = transition.place.key, transition.place.limit
        super().__init__(f"no place of '{key}' is free, of {limit}")
        self.execution_id = transition.execution_id


def refuse_foreign(transitions: Iterable[Transition]) -> None:
    """Raise for a lease that names another execution than the one it reports to."""
    for transition in transitions:
        for lease in transition.leases:
            if lease.execution_id != transition.execution_id:
                raise Lost(lease)


def refuse_stale(
    transitions: Iterable[Transition],
    position: Callable[[str], int],
    is_held: Callable[[Lease], bool],
    is_known: Callable[[str], bool],
    is_room_for: Callable[[Transition], bool],
) -> None:
    """Raise for the first one that does not fit, on what is stored and on each other.

    A later transition of the group sees what the earlier ones will have done, so a
    store can check all of them first and then write without a way back.
    """
    transitions = list(transitions)
    refuse_foreign(transitions)
    positions: dict[str, int] = {}
    ended: set[str] = set()
    keys: set[str] = set()
    for transition in transitions:
        execution_id = transition.execution_id
        last_seq = positions.get(execution_id)
        if last_seq is None:
            last_seq = position(execution_id)
        if transition.after - len(transition.history) != last_seq:
            raise Conflict(execution_id, transition.after, last_seq)
        key = transition.request_key
        if key is not None:
            if key in keys or is_known(key):
                raise Known(transition)
            keys.add(key)
        if takes_place(transition) and not is_room_for(transition):
            raise Taken(transition)
        for lease in transition.leases:
            if lease.command_id in ended or not is_held(lease):
                raise Lost(lease)
        positions[execution_id] = transition.after + len(transition.events)
        ended.update(transition.done, transition.release)
