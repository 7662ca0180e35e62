"""Stored executions, audited: the hash chain, the invariants, the fold."""

from __future__ import annotations

from collections.abc import AsyncIterator

import msgspec

from noetl.commands.logs import PAGE, Place, find_execution, list_executions, reading
from noetl.engine.evolve import evolve
from noetl.engine.invariants import Audit, Breach
from noetl.engine.state import State
from noetl.errors import StoreError
from noetl.home import Home
from noetl.types import JSON

MOST = 100
"""Breaches that are shown of one execution."""


class Audited(msgspec.Struct, frozen=True):
    """One execution, and what is wrong with its log."""

    execution_id: str
    events: int
    breaches: list[Breach]


async def audit_executions(home: Home, wanted: str) -> AsyncIterator[Audited]:
    """One by its id, or ``all`` of this home, the newest first."""
    if wanted != "all":
        yield await _audit(await find_execution(home, wanted))
        return
    cursor = None
    while page := await list_executions(home, PAGE, cursor=cursor):
        for each in page:
            yield await _audit(await find_execution(home, each.execution_id))
        cursor = page[-1].execution_id


async def _audit(place: Place) -> Audited:
    breaches: list[Breach] = []
    state, watch = State(), Audit()
    async with reading(place.log) as store:
        damage = await store.verify(place.execution_id)
        if damage is not None:
            breaches.append(Breach("I-04", damage.seq, damage.message))
        try:
            async for page in store.pages(place.execution_id, size=PAGE):
                for event in page:
                    breaches += watch.take(event)
                    evolve(state, event)
            breaches += watch.end()
        except StoreError as error:
            breaches.append(Breach("I-04", state.seq + 1, str(error)))
        except (KeyError, AttributeError, AssertionError, IndexError) as error:
            # An event that does not fit what was before it cannot be folded.
            message = f"cannot be replayed: {type(error).__name__}: {error}"
            breaches.append(Breach("I-07", state.seq, message))
        summary = await store.summary(place.execution_id)
        if not breaches and state.finished and summary.status != state.status:
            message = f"the listing says {summary.status}, the log {state.status}"
            breaches.append(Breach("I-07", state.seq, message))
    return Audited(place.execution_id, state.seq, breaches[:MOST])


def describe(audited: Audited) -> dict[str, JSON]:
    document: dict[str, JSON] = msgspec.to_builtins(audited)
    return {**document, "intact": not audited.breaches}
