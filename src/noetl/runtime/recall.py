"""What the log has of a report whose number was used before."""

from __future__ import annotations

from collections.abc import Sequence

from noetl.engine.events import Event
from noetl.engine.repetition import Verdict, judge
from noetl.engine.reports import Fact
from noetl.ports import Lease, Store

PAGE = 500


async def recall(store: Store, lease: Lease, facts: Sequence[Fact]) -> Verdict:
    """Looks from the end of the log to the beginning of the run: what is sent again
    was mostly recorded a moment ago."""
    run_id = lease.command_id.split("/")[0]
    mine: list[Event] = []
    verdict: Verdict = "unknown"
    last_seq = await store.length(lease.execution_id)
    while last_seq > 0:
        first = max(0, last_seq - PAGE)
        page = await store.read(lease.execution_id, after=first, limit=last_seq - first)
        of_run = [event for event in page if event.step_run_id == run_id]
        mine += [
            event
            for event in of_run
            if (event.iteration_id or run_id) == lease.command_id
        ]
        verdict = judge(facts, mine)
        if verdict == "same" or any(e.name == "step.scheduled" for e in of_run):
            break
        last_seq = first
    return verdict
