"""Cancel, pause and resume, and what a worker may report."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from noetl import load
from noetl.engine.decide import report
from noetl.engine.reports.accept import FACTS, Fact, OutOfOrder
from noetl.engine.steps.completion import cancel

Run = Callable[..., Any]

CHAIN = """
- step: start
  tool: [{a: {kind: noop}}, {b: {kind: noop}}]
  next: {arcs: [{step: end}]}
- {step: end, tool: [{c: {kind: noop}}]}
"""
PARALLEL = """
- step: start
  loop: {in: "{{ range(6) }}", iterator: x, spec: {mode: parallel, max_in_flight: 2}}
  tool: [{a: {kind: noop}}, {b: {kind: noop}}]
  next: {arcs: [{step: end}]}
- {step: end, tool: [{c: {kind: noop}}]}
"""
NESTED = """
- step: start
  loop:
    in: [1, 2]
    iterator: x
    loop: {in: [1, 2, 3], iterator: y, loop: {in: [1, 2], iterator: z}}
  tool: [{a: {kind: noop, v: "{{ [iter.parent.parent.x, iter.parent.y, iter.z] }}"}}]
  next: {arcs: [{step: end}]}
- {step: end, tool: [{c: {kind: noop}}]}
"""
JOIN = """
- step: start
  next: {spec: {mode: inclusive}, arcs: [{step: p}, {step: q}]}
- {step: p, tool: [{a: {kind: noop}}], next: {arcs: [{step: end}]}}
- {step: q, tool: [{b: {kind: noop}}], next: {arcs: [{step: end}]}}
- {step: end, spec: {join: {}}, tool: [{c: {kind: noop}}]}
"""
RETRY = """
- step: start
  tool: [{a: {kind: noop, spec: {policy: {rules: [
    {when: "{{ _attempt < 3 }}", then: {do: retry, delay: 60}}]}}}}]
  next: {arcs: [{step: end}]}
- {step: end, tool: [{c: {kind: noop}}]}
"""
FLOWS = {
    "a chain": CHAIN,
    "a parallel loop": PARALLEL,
    "loops in loops": NESTED,
    "a join": JOIN,
    "a retry that waits": RETRY,
}
SCHEDULED = ("step.scheduled", "loop.iteration.started", "task.started")


def advance(execution: Any, moves: int) -> None:
    for _ in range(moves):
        execution.step()


def comparable(execution: Any) -> tuple[Any, ...]:
    state = execution.state
    return (
        state.status,
        state.ctx,
        state.result,
        sorted(map(repr, execution.directives)),
        sorted(map(repr, execution.seen)),
    )


@pytest.mark.spec("S-38", "SRV-13")
@pytest.mark.parametrize("moves", range(5))
@pytest.mark.parametrize("flow", FLOWS.values(), ids=FLOWS)
def test_cancel_ends_it_wherever_it_is(prepare: Run, flow: str, moves: int) -> None:
    execution = prepare(flow)
    execution.start()
    advance(execution, moves)
    if execution.state.finished:
        return
    before = len(execution.log)
    execution.cancel()
    after = execution.log[before:]

    assert execution.state.status == "cancelled"
    assert [e.name for e in after if e.name in SCHEDULED] == []
    assert after[0].name == "workflow.cancelled"
    finished = execution.event("workflow.finished")
    assert (finished.status, finished.payload["reason"]) == ("error", "cancelled")
    assert finished.payload["error"]["kind"] == "cancelled"
    over = len(execution.log)
    advance(execution, 5)
    assert len(execution.log) == over


@pytest.mark.spec("S-38", "S-39")
@pytest.mark.parametrize("flow", FLOWS.values(), ids=FLOWS)
def test_a_paused_execution_can_be_cancelled(prepare: Run, flow: str) -> None:
    execution = prepare(flow)
    execution.start()
    execution.pause()
    advance(execution, 3)
    execution.cancel()

    assert execution.state.status == "cancelled"
    assert execution.state.finished


STARTED = Fact("task.started", "a", 1)


def done(label: str = "a", error: bool = False, following: str | None = "b") -> Fact:
    outcome = {"status": "ok", "result": 1, "error": None}
    directive: dict[str, Any] = {"do": "continue", "rule": None, "next": following}
    payload: dict[str, Any] = {"outcome": outcome, "directive": directive}
    if error:
        failure = {"kind": "cancelled", "message": "stopped"}
        outcome.update(status="error", error=failure)
        directive.update(do="fail", next=None)
        payload["error"] = {**failure, "task": label}
    return Fact("task.done", label, 1, payload)


@pytest.mark.spec("S-38")
@pytest.mark.parametrize(
    "fact",
    [
        pytest.param(done(error=True), id="it was stopped"),
        pytest.param(done(), id="it had more to do"),
        pytest.param(done(following=None), id="it was just done"),
    ],
)
@pytest.mark.parametrize(
    ("flow", "command"),
    [
        pytest.param(CHAIN, "sim-1", id="a step"),
        pytest.param(PARALLEL, "sim-1/1", id="an iteration"),
    ],
)
def test_a_running_tool_holds_the_end_until_it_reports(
    prepare: Run, flow: str, command: str, fact: Fact
) -> None:
    execution = prepare(flow)
    execution.start()
    execution.tell(command, [STARTED])
    execution.cancel()

    assert not execution.state.finished
    recorded = execution.tell(command, [fact])
    assert execution.state.status == "cancelled"
    assert [e.name for e in recorded if e.name in SCHEDULED] == []
    assert "next.evaluated" not in execution.names


@pytest.mark.spec("S-38")
def test_nothing_starts_after_a_cancel(prepare: Run) -> None:
    execution = prepare(PARALLEL)
    execution.start()
    execution.tell("sim-1/0", [STARTED])
    execution.cancel()

    recorded = execution.tell("sim-1/0", [STARTED])  # by a second owner
    assert "task.started" not in [event.name for event in recorded]
    assert recorded[0].name == "loop.iteration.failed"
    with pytest.raises(OutOfOrder):
        execution.tell("sim-1/1", [STARTED])
    assert execution.events("step.scheduled", step="end") == []


@pytest.mark.spec("S-35", "S-36")
def test_a_deadline_cancels_with_its_reason(prepare: Run) -> None:
    execution = prepare(CHAIN)
    execution.start()
    execution.command(cancel, {"kind": "timeout", "message": "60 s are over"})
    finished = execution.event("workflow.finished").payload

    assert (finished["status"], finished["reason"]) == ("cancelled", "timeout")
    assert finished["error"]["kind"] == "timeout"


@pytest.mark.spec("S-38")
def test_cancel_twice_or_too_late_changes_nothing(prepare: Run) -> None:
    execution = prepare(CHAIN)
    execution.run()
    before = len(execution.log)
    execution.cancel()
    execution.pause()
    execution.resume()

    assert len(execution.log) == before
    assert execution.state.status == "completed"


@pytest.mark.spec("S-39", "SRV-15")
@pytest.mark.parametrize("running", range(3))
@pytest.mark.parametrize("moves", range(8))
@pytest.mark.parametrize("flow", FLOWS.values(), ids=FLOWS)
def test_the_result_is_as_if_never_paused(
    prepare: Run, run: Run, flow: str, moves: int, running: int
) -> None:
    execution = prepare(flow)
    execution.start()
    advance(execution, moves)
    execution.pause()
    paused = len(execution.log)
    advance(execution, running)  # what runs reports while it is paused
    new = [event.name for event in execution.log[paused:]]
    if not execution.state.finished:
        assert execution.state.status == "paused"
        assert [n for n in new if n in SCHEDULED[:2] or "finished" in n] == []
    execution.resume()
    while execution.step():
        pass

    assert comparable(execution) == comparable(run(flow))


@pytest.mark.spec("S-39")
def test_pause_and_resume_are_recorded_once(prepare: Run) -> None:
    execution = prepare(CHAIN)
    execution.start()
    for order in (execution.pause, execution.pause, execution.resume, execution.resume):
        order()

    assert execution.event("workflow.paused").status == "paused"
    assert execution.event("workflow.resumed").status == "in_progress"


@pytest.mark.spec("PIPE-07")
@pytest.mark.parametrize(
    ("command", "facts"),
    [
        pytest.param("sim-1", [done()], id="a task that never started"),
        pytest.param("sim-1", [Fact("task.started", "b", 1)], id="another task"),
        pytest.param("sim-1", [Fact("task.started", "a", 2)], id="another attempt"),
        pytest.param("sim-7", [STARTED], id="a run that is not there"),
        pytest.param("sim-1/0", [STARTED], id="an iteration that is not there"),
    ],
)
def test_a_report_that_cannot_be_true_is_refused(
    prepare: Run, command: str, facts: list[Fact]
) -> None:
    execution = prepare(CHAIN)
    execution.start()
    before = len(execution.log)

    with pytest.raises(OutOfOrder):
        execution.tell(command, facts)
    assert len(execution.log) == before
    assert execution.state.seq == before


@pytest.mark.spec("EVT-21")
def test_a_report_after_the_end_is_refused(prepare: Run) -> None:
    execution = prepare(CHAIN)
    execution.run()

    with pytest.raises(OutOfOrder):
        execution.tell("sim-1", [STARTED])


def test_a_second_start_of_one_attempt_is_in_doubt(prepare: Run) -> None:
    execution = prepare(CHAIN)
    execution.start()
    execution.tell("sim-1", [STARTED])
    execution.tell("sim-1", [STARTED])
    (again,) = execution.tell("sim-1", [STARTED])

    assert again.payload == {"in_doubt": 2}
    assert again.attempt == 1
    assert execution.state.runs["sim-1"].progress.in_doubt == 2
    execution.tell("sim-1", [done()])
    assert execution.state.runs["sim-1"].progress.in_doubt == 0


@pytest.mark.spec("WKR-06", "POL-14", "NEXT-15")
def test_a_worker_has_no_word_for_a_new_step(prepare: Run) -> None:
    execution = prepare("- {step: start, tool: [{a: {kind: noop}}]}")
    execution.start()
    before = len(execution.log)

    for name in ("step.scheduled", "next.evaluated", "workflow.finished"):
        with pytest.raises(OutOfOrder, match=f"may not report {name}"):
            report(execution._batch(), "sim-1", [Fact(name)])

    assert FACTS == ("step.started", "task.started", "task.done", "task.suspended")
    assert len(execution.log) == before


@pytest.mark.spec("S-36", "SRV-13")
def test_the_limit_of_step_runs_stops_what_runs_beside(prepare: Run) -> None:
    flow = """
    - step: start
      next: {spec: {mode: inclusive}, arcs: [{step: slow}, {step: spin}]}
    - {step: slow, tool: [{a: {kind: noop}}, {b: {kind: noop}}]}
    - {step: spin, next: {arcs: [{step: spin}]}}
    """
    execution = prepare(flow, "executor: {spec: {limits: {step_runs: 9}}}\n")
    execution.start()
    ended = execution.events("step.done", "step.failed")

    assert execution.state.finished
    assert execution.state.status == "failed"
    assert execution.state.error["kind"] == "limit.exceeded"
    assert len(ended) == len(execution.events("step.scheduled")) == 9


@pytest.mark.spec("S-36", "S-70")
@pytest.mark.parametrize(
    ("limit", "most"), [("step_runs", 100_000), ("task_runs", 1_000_000)]
)
def test_a_playbook_lowers_a_limit_and_never_raises_it(limit: str, most: int) -> None:
    def is_valid(value: int) -> bool:
        return load(
            "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: t}\n"
            f"executor: {{spec: {{limits: {{{limit}: {value}}}}}}}\n"
            "workflow: [{step: start, tool: {kind: noop}}]\n"
        ).valid

    assert is_valid(1)
    assert is_valid(most)
    assert not is_valid(most + 1)
