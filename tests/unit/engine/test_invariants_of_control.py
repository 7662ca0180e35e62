"""The audit of logs with controls, time, waits, inner loops and large values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from doctored_logs import (
    doubled,
    edited,
    find,
    inserted,
    messages_in,
    names_in,
    numbered,
    swapped,
    without,
)
from msgspec.structs import replace

from noetl.engine.invariants import audit
from noetl.engine.waits.signals import receive

Run = Callable[..., Any]

FLOW = """
- step: start
  loop: {in: [1, 2, 3, 4], iterator: x, spec: {mode: parallel, max_in_flight: 2}}
  tool: [{a: {kind: noop, spec: {policy: {rules: [
    {when: "{{ _attempt < 2 }}", then: {do: retry}},
    {else: {then: {do: continue, set_ctx: {k: 1}}}}]}}}},
    {b: {kind: noop}}]
  next: {spec: {mode: inclusive}, arcs: [{step: left}, {step: right}]}
- {step: left, tool: {kind: noop}, next: {arcs: [{step: end}]}}
- {step: right, tool: {kind: noop}, next: {arcs: [{step: end}]}}
- {step: end, spec: {join: {mode: all}}, tool: {kind: noop}}
"""


@pytest.fixture(scope="module")
def flow(run: Run) -> Any:
    return run(FLOW, script={"b": lambda call: call.attempt})


@pytest.mark.spec("S-38")
def test_a_start_after_a_cancel_is_named(prepare: Run) -> None:
    execution = prepare("- {step: start, tool: [{a: {kind: noop}}, {b: {kind: noop}}]}")
    execution.start()
    execution.step()
    started = execution.event("task.started")
    scheduled = execution.event("step.scheduled")
    execution.cancel()
    log = execution.log
    assert audit(log) == []
    at = find(log, "workflow.cancelled") + 1

    for event in (started, scheduled):
        assert "I-32" in names_in(numbered([*log[:at], event, *log[at:]]))
    assert "I-34" in names_in(doubled(log, "workflow.cancelled"))


@pytest.mark.spec("S-39")
def test_a_start_during_a_pause_is_named(prepare: Run) -> None:
    execution = prepare(FLOW)
    execution.start()
    execution.pause()
    execution.resume()
    while execution.step():
        pass
    log = execution.log
    assert audit(log) == []

    moved = swapped(log, "workflow.resumed")
    begun = inserted(log, "workflow.resumed", execution.events("step.scheduled")[1])
    for changed in (
        begun,
        doubled(log, "workflow.paused"),
        doubled(log, "workflow.resumed"),
        without(log, "workflow.paused"),
    ):
        assert "I-33" in names_in(changed)
    assert moved != log


def test_a_deadline_before_its_time_is_named(prepare: Run) -> None:
    execution = prepare(
        "- {step: start, spec: {deadline: 60}, tool: {kind: wait, for: 1h}}"
    )
    execution.run()
    log = execution.log
    assert audit(log) == []
    assert execution.state.status == "failed"
    at = find(log, "step.failed")
    early = replace(log[at], timestamp="1970-01-01T00:00:59.000000Z")

    [breach] = audit([*log[:at], early, *log[at + 1 :]])

    assert (breach.invariant, breach.seq) == ("I-28", early.seq)
    assert breach.expected == "at 1970-01-01T00:01:00.000000Z or later"


def test_a_wait_that_ends_before_its_time_is_named(run: Run) -> None:
    log = run(
        """
        - step: start
          tool: [{a: {kind: wait, for: 1h}}, {b: {kind: noop}}]
        """
    ).log
    assert audit(log) == []
    again = inserted(log, "task.done", log[find(log, "task.started")])
    at = find(again, "task.done") - 1
    late = replace(again[at], timestamp="1970-01-01T01:00:00.000000Z")

    assert "I-28" in names_in(again)
    assert "I-28" not in names_in([*again[:at], late, *again[at + 1 :]])


@pytest.mark.spec("S-21")
def test_two_writers_of_one_key_are_named(run: Run) -> None:
    log = run(FLOW).log
    ends = [e for e in log if e.name == "task.done" and e.payload.get("set_ctx")]
    second = ends[1]
    other = {**second.payload, "set_ctx": {"k": 2}}
    changed = [replace(e, payload=other) if e is second else e for e in log]

    [breach, *_] = audit(changed)

    assert (breach.invariant, breach.seq) == ("I-30", second.seq)
    assert breach.message == "ctx.k is written by sim-1/1 and by sim-1/0"
    # One after the other, they may.
    sequential = edited(changed, "loop.started", "mode", "sequential")
    assert "I-30" not in names_in(sequential)


def test_a_signal_that_two_pipelines_take_is_named(prepare: Run) -> None:
    execution = prepare("- {step: start, tool: {kind: wait, signal: go}}")
    execution.run()
    execution.command(receive, "go", {"n": 1})
    while execution.step():
        pass
    log = execution.log
    assert audit(log) == []
    assert "task.resumed" in execution.names

    assert "I-49" in names_in(doubled(log, "task.resumed"))
    assert "I-49" in names_in(without(log, "message.received"))


@pytest.mark.spec("S-76")
@pytest.mark.parametrize(
    ("kept", "invariant"),
    [
        ({"done": 2, "ranges": [[0, 1]], "results": [None, None]}, None),
        ({"done": 1, "ranges": [[0, 1]], "results": [None]}, "I-48"),
        ({"done": 2, "ranges": [[3, 4]], "results": [None, None]}, "I-48"),
        ({"done": 2, "ranges": [[1, 1], [0, 0]], "results": [None, None]}, "I-48"),
    ],
)
def test_kept_iterations_are_counted(
    prepare: Run, kept: dict[str, Any], invariant: str | None
) -> None:
    execution = prepare(FLOW)
    execution.start()
    at = find(execution.log, "loop.started")
    log = execution.log[: at + 1]
    given = {"step_run_id": "sim-0", **kept}
    log[at] = replace(log[at], payload={**log[at].payload, "kept": given})
    third = replace(
        execution.events("loop.iteration.started")[0],
        entity_id="sim-1/2",
        iteration_id="sim-1/2",
        payload={"item": 3, "first": "a"},
    )

    found = names_in(numbered([*log, third]))

    assert found == (set() if invariant is None else found | {invariant})


def test_an_end_with_something_open_is_named(flow: Any) -> None:
    log = without(without(flow.log, "workflow.finished"), "loop.iteration.done")
    at = max(n for n, event in enumerate(log) if event.name == "step.done")
    log = numbered([*log[:at], *log[at + 1 :]])

    assert "the execution has finished, but sim-4 has not" in messages_in(log)


def test_a_step_without_arcs_or_with_two_boundaries_is_named(
    flow: Any, prepare: Run
) -> None:
    at = find(flow.log, "step.done")
    first = flow.event("next.evaluated", step="start")
    routed = replace(first, payload={**first.payload, "on": "step.done"})
    twice = numbered([*flow.log[: at + 1], routed, *flow.log[at + 1 :]])
    other = prepare("- {step: start, tool: {kind: noop}}").playbook

    assert "step.done of sim-1 is routed" in messages_in(twice)
    assert "start is routed" in messages_in(flow.log, other)


NESTED = """
- step: start
  spec: {policy: {failure: best_effort}}
  loop:
    in: [1, 2]
    iterator: x
    spec: {mode: sequential}
    loop: {in: [3, 4], iterator: y, spec: {mode: parallel}}
  tool: [{a: {kind: noop}}]
"""


def test_damage_of_inner_loops_is_named(run: Run) -> None:
    log = run(NESTED).log
    assert audit(log) == []
    inner = [n for n, e in enumerate(log) if e.name == "loop.started"][1]
    outer = [n for n, e in enumerate(log) if e.entity_id == "sim-1/0"]
    begun = next(n for n in outer if log[n].name == "loop.iteration.started")
    ended = next(n for n in outer if log[n].name == "loop.iteration.done")
    early = log[ended]
    rest = [*log[:ended], *log[ended + 1 :]]

    orphan = numbered([*log[:begun], *log[begun + 1 :]])
    cut = numbered([*rest[: inner + 3], early, *rest[inner + 3 :]])

    assert "the loop sim-1/0 begins" in messages_in(orphan)
    assert "sim-1/0 ends with 2 open iterations inside it" in messages_in(cut)


def test_the_errors_of_a_loop_are_those_of_its_iterations(run: Run) -> None:
    log = run(NESTED, script={"a": ["!timeout", None]}).log
    assert audit(log) == []
    assert any("errors" in event.payload for event in log)
    at = next(n for n, event in enumerate(log) if "errors" in event.payload)
    payload = {**log[at].payload, "errors": []}

    changed = [*log[:at], replace(log[at], payload=payload), *log[at + 1 :]]

    assert "errors differs from the failed iterations" in messages_in(changed)


def test_a_deadline_of_the_execution_before_its_time_is_named(prepare: Run) -> None:
    root = "executor: {spec: {deadline: 60}}\n"
    execution = prepare("- {step: start, tool: {kind: wait, for: 1h}}", root)
    execution.run()
    log = execution.log
    assert audit(log) == []
    at = find(log, "workflow.cancelled")
    early = replace(log[at], timestamp="1970-01-01T00:00:59.000000Z")

    [breach] = audit([*log[:at], early, *log[at + 1 :]])

    assert (breach.invariant, breach.seq) == ("I-28", early.seq)
    completed = edited(log, "workflow.finished", "status", "completed")
    assert "status completed after a cancellation" in messages_in(completed)


def test_an_admission_and_an_end_out_of_turn_are_named(flow: Any, prepare: Run) -> None:
    execution = prepare("- {step: start, tool: {kind: noop}}")
    execution.start()
    execution.pause()
    paused = execution.event("workflow.paused")
    admitted = replace(paused, name="workflow.admitted", payload={"deadline": None})
    admitted = replace(admitted, status="in_progress")

    late = inserted(flow.log, "workflow.finished", paused)
    strange = inserted(flow.log, "step.started", admitted)

    assert "the execution finishes while paused" in messages_in(late)
    assert "an execution is admitted that did not wait" in messages_in(strange)


def test_a_success_before_the_last_task_is_named(flow: Any) -> None:
    done = edited(flow.log, "task.done", "directive", {"do": "continue", "next": "b"})
    at = find(done, "task.done")
    end = flow.events("loop.iteration.done")[0]
    early = numbered([*done[: at + 1], end, *done[at + 1 :]])

    assert "sim-1/0 succeeds before its task 'b'" in messages_in(early)


def test_a_pipeline_beyond_its_limit_is_named(run: Run, prepare: Run) -> None:
    tasks = ", ".join(f"{{{label}: {{kind: noop}}}}" for label in "abc")
    flow = f"- {{step: start, tool: [{tasks}]}}"
    root = "executor: {spec: {limits: {task_runs: 1}}}\n"
    narrow = prepare(flow, root).playbook

    assert "the pipeline has run 3 tasks" in messages_in(run(flow).log, narrow)


def test_a_refusal_that_does_not_fail_is_named(run: Run) -> None:
    log = run(FLOW).log
    at = next(n for n, e in enumerate(log) if e.payload.get("set_ctx"))
    payload = {**log[at].payload, "refused": {"key": "k", "by": "sim-1/1"}}
    changed = [*log[:at], replace(log[at], payload=payload), *log[at + 1 :]]

    assert "ctx.k is refused" in messages_in(changed)


@pytest.mark.spec("S-48")
def test_references_are_compared_with_what_they_refer_to(run: Run) -> None:
    log = run(
        "- {step: start, loop: {in: [1, 2], iterator: x, spec: {mode: parallel}}, "
        "tool: [{a: {kind: noop}}]}",
        script={"a": ["x" * 30_000]},
    ).log
    assert audit(log) == []
    large = run(
        "- {step: start, tool: [{a: {kind: noop}}]}", script={"a": ["x" * 70_000]}
    )
    assert audit(large.log) == []

    for path, value, words in (
        ("results.range", "1-9", "the results are those of log:sim-1 in 1-9"),
        ("results.key", "log:sim-2", "the results are those of log:sim-2 in"),
        ("results.size", 7, "the results have 7 bytes"),
    ):
        assert any(
            message.startswith(words)
            for message in messages_in(edited(log, "loop.done", path, value))
        ), path
    forged = edited(large.log, "task.done", "outcome.result.checksum", "sha256:0")
    words = "the reference at outcome.result has sha256:0"
    assert words in messages_in(forged)
