"""Places of concurrency keys: the rules that every store follows.

Who has a place is read from the executions that are not over, never from a counter:
there is nothing that a crash could leave wrong.
"""

from __future__ import annotations

from collections.abc import Sequence

from noetl.adapters.stores.leasing import OVER
from noetl.ports import Standing, Transition

NAME = "place"
"""The timer of an execution that is the next to take a place."""


def takes_place(transition: Transition) -> bool:
    """Whether it needs a place of its key to be stored."""
    place = transition.place
    return (
        place is not None and not place.queued and transition.summary.status not in OVER
    )


def has_room(transition: Transition, line: Sequence[Standing]) -> bool:
    """``line`` are those with a place, and the first of those that wait."""
    mine, place = transition.execution_id, transition.place
    assert place is not None
    for each in line:
        if each.execution_id == mine and not each.queued:
            return True
        if each.execution_id != mine and each.queued:
            return False  # it came before
    return _held(line) < place.limit


def next_in(line: Sequence[Standing]) -> str | None:
    """The execution that waits in front, if there is room for it."""
    for each in line:
        if each.queued:
            return each.execution_id if _held(line) < each.limit else None
    return None


def _held(line: Sequence[Standing]) -> int:
    return sum(1 for each in line if not each.queued)
