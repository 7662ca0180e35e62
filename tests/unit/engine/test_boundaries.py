"""What guards may ask a boundary event, now and when there are more of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from noetl.engine.events import EVENTS, EventType, Payload
from noetl.engine.recorder import Batch
from noetl.engine.steps.routing import route
from noetl.engine.tasks.scope import view

Run = Callable[..., Any]


@pytest.mark.spec("NEXT-09", "NEXT-08", "S-12")
def test_guards_read_the_summary_of_a_loop(run: Run) -> None:
    execution = run(
        """
        - step: start
          spec: {policy: {failure: best_effort}}
          loop: {in: [1, 2, 3], iterator: x}
          tool: [{a: {kind: noop}}]
          next:
            spec: {mode: inclusive}
            arcs:
              - {step: some, when: "{{ event.payload.failed > 0 }}",
                 args: {left: "{{ event.payload.total - event.payload.done }}"}}
              - {step: none, when: "{{ event.payload.failed == 0 }}"}
              - {step: first, when: "{{ event.payload.results[0] == 'ok' }}"}
        - {step: some, tool: [{b: {kind: noop, v: "{{ args.left }}"}}]}
        - {step: none, tool: {kind: noop}}
        - {step: first, tool: [{c: {kind: noop}}]}
        """,
        script={"a": ["ok", "!x", "!y"]},
    )

    assert execution.fired[0] == ["some", "first"]
    assert execution.seen[3:] == [2, None]


@pytest.mark.spec("NEXT-09", "S-07", "S-11")
def test_guards_read_the_outcome_of_a_step_by_its_reference(run: Run) -> None:
    """What a storage task left behind is small, and enough to route on."""
    reference = {"store": "postgres.table", "key": "orders", "size": 10_000}
    execution = run(
        """
        - step: start
          tool: [{store: {kind: noop}}]
          next: {arcs: [
            {step: small, when: "{{ event.payload.result.size < 1000 }}"},
            {step: large, when: "{{ event.payload.result.store == 'postgres.table' }}",
             args: {table: "{{ event.payload.result }}"}}]}
        - {step: small, tool: {kind: noop}}
        - {step: large, tool: [{read: {kind: noop, v: "{{ args.table.key }}"}}]}
        """,
        script={"store": [reference]},
    )

    assert execution.fired[0] == ["large"]
    assert execution.seen == [None, "orders"]


GUARDED = """
- step: start
  tool: [{a: {kind: noop}}]
  next: {arcs: [
    {step: person, when: "{{ event.name | upper == 'STEP.ESCALATED' }}",
     args: {to: "{{ event.payload.to }}"}},
    {step: end, when: "{{ event.name == 'step.done' }}"}]}
- {step: person, tool: {kind: noop}}
- {step: end, tool: {kind: noop}}
"""


@pytest.mark.spec("NEXT-16", "NEXT-10")
def test_a_guard_that_asks_for_another_event_is_false(run: Run) -> None:
    execution = run(GUARDED)

    assert execution.fired == [["end"]]


class Escalated(Payload):
    """A person must decide."""

    to: str


@pytest.mark.spec("NEXT-16")
def test_a_new_boundary_event_routes_once_it_is_declared(
    prepare: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The router knows no names: whatever ends or interrupts a run can trigger it."""
    escalated = EventType("step.escalated", Escalated, "step", "server", "in_progress")
    monkeypatch.setitem(EVENTS, escalated.name, escalated)
    execution = prepare(GUARDED)
    execution.start()
    (run,) = execution.state.runs.values()
    batch = Batch(execution.playbook, execution.net, execution.state)
    event = batch.emit(escalated, run.id, {"to": "Ada"}, step=run.step)
    run.boundary = view(event)

    fired = route(batch, run, on="step.escalated")

    (token,) = batch.events[-1].payload["fired"]
    assert fired
    assert (token["step"], token["args"]) == ("person", {"to": "Ada"})
    assert batch.events[-1].payload["on"] == "step.escalated"
