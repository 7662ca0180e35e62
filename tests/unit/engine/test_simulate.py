"""The simulation itself: calls that take time, workers that are lost, large values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from noetl.engine.simulate import Diverged, ScriptedOutcome
from noetl.engine.tasks.outcome import Outcome
from noetl.engine.tasks.pipeline import Call

Run = Callable[..., Any]

PARALLEL = """
- step: start
  loop: {in: [3, 1, 2], iterator: x, spec: {mode: parallel}}
  tool: [{a: {kind: http, url: u, body: "{{ iter.x }}"}}]
"""


def slow(call: Call) -> ScriptedOutcome:
    return ScriptedOutcome(Outcome.ok(call.inputs["body"]), float(call.inputs["body"]))


def test_calls_that_take_time_end_in_the_order_of_their_ends(prepare: Run) -> None:
    execution = prepare(PARALLEL)
    execution._script = slow
    execution.run()
    done = execution.events("task.done")

    assert [event.payload["outcome"]["result"] for event in done] == [1, 2, 3]
    assert [event.payload["outcome"]["meta"]["duration_ms"] for event in done] == [
        1000.0,
        2000.0,
        3000.0,
    ]
    assert execution.clock == 3.0
    assert execution.state.result == [3, 1, 2]


@pytest.mark.spec("S-38")
def test_a_cancel_stops_calls_under_way(prepare: Run) -> None:
    execution = prepare(PARALLEL)
    execution._script = slow
    execution.start()
    for _ in range(3):
        execution.step()
    execution.pass_time(0.5)
    execution.cancel()
    while execution.step():
        pass

    kinds = [
        e.payload["outcome"]["error"]["kind"] for e in execution.events("task.done")
    ]
    assert kinds == ["cancelled"] * 3
    assert (execution.state.status, execution.clock) == ("cancelled", 0.5)


@pytest.mark.spec("S-35")
def test_a_deadline_leaves_no_call_behind(prepare: Run) -> None:
    execution = prepare(PARALLEL.replace("loop:", "spec: {deadline: 1.5}\n  loop:"))
    execution._script = slow
    execution.run()

    assert execution.state.error["kind"] == "timeout"
    assert execution.clock == 1.5
    assert len(execution.events("task.done")) == 1
    assert not execution.step()


@pytest.mark.spec("S-45", "REP-01")
def test_a_lost_worker_is_replaced_by_one_that_reads_the_log(prepare: Run) -> None:
    answers = iter([ScriptedOutcome(None, 2.0), ScriptedOutcome(Outcome.ok(7), 1.0)])
    execution = prepare("- {step: start, tool: [{a: {kind: http, url: u}}]}")
    execution._script = lambda call: next(answers)
    before = execution.state
    execution.run()

    assert execution.state is not before, "the state was folded from the log"
    assert (execution.state.result, execution.clock) == (7, 3.0)
    assert [e.payload for e in execution.events("task.started")] == [
        {},
        {"in_doubt": 1},
    ]
    assert len(execution.events("step.started")) == 1


def test_a_state_that_the_log_does_not_tell_is_refused(prepare: Run) -> None:
    execution = prepare("- {step: start, tool: [{a: {kind: wait, signal: go}}]}")
    execution.start()
    execution.recover()
    execution.state.ctx["secretly"] = 1

    with pytest.raises(Diverged):
        execution.recover()


def test_a_call_that_the_script_leaves_out_must_be_one_that_waits(prepare: Run) -> None:
    execution = prepare("- {step: start, tool: [{a: {kind: http, url: u}}]}")
    execution._script = lambda call: None

    with pytest.raises(ValueError, match="the script has no outcome for task 'a'"):
        execution.run()


@pytest.mark.spec("S-48")
@pytest.mark.parametrize("size", [10, 3_000, 70_000])
def test_results_of_a_loop_are_read_however_large_they_are(run: Run, size: int) -> None:
    flow = """
    - step: start
      loop: {in: "{{ range(30) }}", iterator: x, spec: {mode: parallel}}
      tool: [{a: {kind: http, url: u}}]
      next:
        arcs:
          - step: end
            args: {sizes: "{{ event.payload.results | map('length') | sum }}"}
    - {step: end, tool: [{v: {kind: noop, v: "{{ args.sizes }}"}}]}
    """
    execution = run(flow, script={"a": ["x" * size]})

    assert execution.seen[-1] == 30 * size
    results = execution.whole(execution.event("loop.done").payload["results"])
    assert results == ["x" * size] * 30
