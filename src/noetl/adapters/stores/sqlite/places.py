"""Places of concurrency keys, in the rows of executions that are not over."""

from __future__ import annotations

import sqlite3

from noetl.adapters.stores.leasing import OVER
from noetl.adapters.stores.queueing import NAME, has_room, next_in
from noetl.adapters.stores.sqlite.queries import SQL
from noetl.ports import Standing, Transition


def line(db: sqlite3.Connection, key: str, query: str = "line") -> list[Standing]:
    return [
        Standing(execution_id, most, bool(queued))
        for execution_id, most, queued in db.execute(SQL[query], (key,))
    ]


def is_room_for(db: sqlite3.Connection, transition: Transition) -> bool:
    assert transition.place is not None
    return has_room(transition, line(db, transition.place.key, "front"))


def change_place(db: sqlite3.Connection, number: int, transition: Transition) -> None:
    """Take it, wait for it or give it back; and tell whoever is next."""
    place = transition.place
    if place is None:
        return
    if transition.summary.status in OVER:
        db.execute(SQL["leave_place"], (number,))
    else:
        row = (number, place.key, place.limit, place.queued)
        db.execute(SQL["take_place"], row)
    following = next_in(line(db, place.key, "front"))
    if following is not None:
        db.execute(SQL["notify"], (NAME, 0.0, "place", following))
