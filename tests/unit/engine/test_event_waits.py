"""Pipelines that wait for events are offered each one as soon as it is recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from noetl.engine.events import STEP_STARTED, TRIGGERS
from noetl.engine.recorder import Batch
from noetl.engine.waits.resume import announce

Run = Callable[..., Any]

FLOW = """
- step: start
  next: {{spec: {{mode: inclusive}}, arcs: [{{step: listener}}, {{step: gate}},
    {{step: bad}}, {{step: loop}}]}}
- step: listener
  tool: {{pick: {{kind: choose, wait: true, when: {{
    heard: "{{{{ event.name == '{name}' }}}}"}}}}}}
- step: gate
  spec: {{policy: {{admit: {{rules: [{{else: {{then: {{allow: false}}}}}}]}}}}}}
  tool: {{kind: noop}}
- {{step: bad, tool: [{{fails: {{kind: noop}}}}]}}
- step: loop
  spec: {{policy: {{failure: best_effort}}}}
  loop: {{in: [1, 2], iterator: x}}
  tool: [{{turns: {{kind: noop}}}}]
  next: {{arcs: [{{step: again}}]}}
- step: again
  next: {{spec: {{mode: inclusive}}, arcs: [{{step: closed}}, {{step: last}}]}}
- step: closed
  spec: {{policy: {{admit: {{rules: [{{else: {{then: {{allow: false}}}}}}]}}}}}}
  tool: {{kind: noop}}
- {{step: last, loop: {{in: [1], iterator: x}}, tool: [{{end: {{kind: noop}}}}]}}
"""
SCRIPT = {"fails": ["!x"], "turns": [1, "!x"], "end": [1]}


@pytest.mark.parametrize("name", sorted(TRIGGERS))
def test_a_pipeline_goes_on_right_after_the_event_that_it_waits_for(
    prepare: Run, name: str
) -> None:
    execution = prepare(FLOW.format(name=name), script=dict(SCRIPT))

    execution.run()

    woken = execution.event("task.resumed")
    before = execution.log[woken.seq - 2]
    assert before.name == name
    assert woken.payload["answer"]["event"]["name"] == name
    assert woken.payload["answer"]["matched"] == ["heard"]


def test_emitting_records_one_event_and_decides_nothing(prepare: Run) -> None:
    execution = prepare(FLOW.format(name="step.started"), script=dict(SCRIPT))
    execution.start()
    while not execution.state.suspended:
        execution.step()
    batch = Batch(execution.playbook, execution.net, execution.state)

    batch.emit(STEP_STARTED, "sim-99", {"tokens": []}, step_run_id="sim-99")

    assert [event.name for event in batch.events] == ["step.started"]


PARALLEL = """
- step: start
  loop: {in: [1, 2], iterator: x, spec: {mode: parallel}}
  tool: {pick: {kind: choose, wait: true, when: {
    mine: "{{ event.name == 'message.received' and event.payload.n == iter.x }}"}}}
"""


def test_a_signal_goes_to_the_iteration_whose_guard_accepts_it(prepare: Run) -> None:
    execution = prepare(PARALLEL)
    execution.start()
    execution.step()
    execution.signal("go", {"n": 2})
    execution.step()

    assert execution.event("task.resumed").iteration_id == "sim-1/1"


def test_a_pipeline_is_not_offered_events_of_its_own_step(prepare: Run) -> None:
    flow = FLOW.format(name="nothing")
    execution = prepare(flow, script=dict(SCRIPT))
    execution.start()
    while not execution.state.suspended:
        execution.step()
    [command_id] = execution.state.suspended
    own = execution.events("step.started", step="listener")[0]

    announced = execution.command(announce, own)

    assert announced == []
    assert own.step_run_id == command_id


def test_missed_events_that_no_guard_accepts_are_passed_over(prepare: Run) -> None:
    flow = """
    - step: start
      next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}]}
    - {step: a, tool: [{one: {kind: noop}}, {two: {kind: noop}}]}
    - step: b
      tool: {pick: {kind: choose, wait: true, spec: {policy: {rules: [
          {when: "{{ _attempt < 2 }}", then: {do: retry}}]}}, when: {
        go: "{{ event.name == 'message.received' }}"}}}
    """
    execution = prepare(flow)
    execution.start()
    [other, waits] = list(execution.ready())
    execution.move(*waits)
    execution.signal("go")  # the pipeline goes on, and what follows is kept for it
    execution.move(*other)
    assert execution.state.listeners[waits[0].id]
    execution.move(*waits)
    execution.move(*waits)

    assert len(execution.events("task.suspended")) == 2
    assert len(execution.events("task.resumed")) == 1
