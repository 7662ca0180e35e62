"""A worker that reports is given the next command in the same commit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

Make = Callable[..., Any]

HEARD = """
- step: start
  next: {spec: {mode: inclusive}, arcs: [{step: listener}, {step: before}]}
- step: listener
  tool:
    pick: {kind: choose, wait: true, when: {begun:
      "{{ event.name == 'task.started' and event.step == 'after' }}"}}
- step: before
  tool: [{work: {kind: noop}}]
  next: {arcs: [{step: after}]}
- step: after
  tool: [{work: {kind: noop}}]
"""


async def test_a_start_that_is_granted_wakes_the_pipeline_that_waits_for_it(
    make_cluster: Make, make_tool: Make
) -> None:
    cluster = make_cluster()
    await cluster.start(HEARD)
    cluster.work("w", make_tool(), slots=1)

    log = await cluster.finish()

    assert log[-1].payload["status"] == "completed"
    (woken,) = (each for each in log if each.name == "task.resumed")
    begun = next(e for e in log if e.name == "task.started" and e.step == "after")
    assert woken.seq == begun.seq + 1
    batch = next(batch for batch in cluster.batches if begun in batch)
    names = [(event.name, event.step) for event in batch]
    assert ("step.done", "before") in names, "it was given in the commit of the report"
