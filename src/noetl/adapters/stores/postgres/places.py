"""Places of concurrency keys: whoever changes one has the key to themselves."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from noetl.adapters.stores.encoding import Encoded
from noetl.adapters.stores.leasing import OVER
from noetl.adapters.stores.queueing import NAME, has_room, next_in, takes_place
from noetl.ports import Standing, Transition

_ONE_AT_A_TIME = "SELECT pg_advisory_xact_lock(hashtextextended($1, 64))"
_OPEN = (
    "SELECT x.execution_id, p.most, p.queued, p.execution FROM place AS p "
    "JOIN execution AS x ON x.number = p.execution WHERE p.key = $1 "
    "AND x.status NOT IN ('completed', 'failed', 'cancelled') "
)
LINE = f"{_OPEN} ORDER BY p.execution"
_FRONT = (
    f"{_OPEN} AND NOT p.queued UNION ALL "
    f"SELECT * FROM ({_OPEN} AND p.queued ORDER BY p.execution LIMIT 1) AS first"
)
_TAKE = (
    "INSERT INTO place (execution, key, most, queued) "
    "SELECT number, $2, $3, $4 FROM execution WHERE execution_id = $1 "
    "ON CONFLICT (execution) DO UPDATE SET queued = excluded.queued"
)
_LEAVE = (
    "DELETE FROM place WHERE execution = "
    "(SELECT number FROM execution WHERE execution_id = $1)"
)
_TELL = (
    "INSERT INTO timer (execution, timer_id, due_at, kind) "
    "SELECT number, $2, 0, 'place' FROM execution WHERE execution_id = $1 "
    "ON CONFLICT (execution, timer_id) DO UPDATE SET due_at = 0, kind = 'place'"
)


async def lock_keys(connection: Any, items: Iterable[Encoded]) -> None:
    """A statement of its own: the next one sees what the last owner has stored."""
    keys = {item.transition.place.key for item in items if item.transition.place}
    for key in sorted(keys):  # always in this order: no ring
        await connection.execute(_ONE_AT_A_TIME, key)


async def is_refused(connection: Any, transition: Transition) -> bool:
    """Whether it needs a place, and there is none for it."""
    place = transition.place
    if place is None or not takes_place(transition):
        return False
    return not has_room(transition, await _front(connection, place.key))


async def change_place(connection: Any, transition: Transition) -> None:
    """Take it, wait for it or give it back; and tell whoever is next."""
    place, execution_id = transition.place, transition.execution_id
    if place is None:
        return
    if transition.summary.status in OVER:
        await connection.execute(_LEAVE, execution_id)
    else:
        row = (execution_id, place.key, place.limit, place.queued)
        await connection.execute(_TAKE, *row)
    following = next_in(await _front(connection, place.key))
    if following is not None:
        await connection.execute(_TELL, following, NAME)


async def _front(connection: Any, key: str) -> list[Standing]:
    return standings(await connection.fetch(_FRONT, key))


def standings(rows: Iterable[Any]) -> list[Standing]:
    return [Standing(row["execution_id"], row["most"], row["queued"]) for row in rows]
