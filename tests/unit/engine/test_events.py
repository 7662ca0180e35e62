"""The envelope, the order and the ids of what is recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from noetl.engine.events import EVENTS

Run = Callable[..., Any]

FLOW = """
- step: start
  tool: [{a: {kind: noop}}]
  next: {spec: {mode: inclusive}, arcs: [{step: loop}, {step: gate}, {step: end},
    {step: retry}]}
- step: loop
  loop: {in: [1, 2], iterator: x, loop: {in: [1], iterator: y}}
  tool: [{b: {kind: noop}}]
  next: {arcs: [{step: end}]}
- step: gate
  spec: {policy: {admit: {rules: [{else: {then: {allow: false}}}]}}}
  tool: [{c: {kind: noop}}]
- step: retry
  tool: [{e: {kind: noop, spec: {policy: {rules: [
    {when: "{{ outcome.status == 'error' }}", then: {do: retry}}]}}}}]
- {step: end, spec: {join: {}}, tool: [{d: {kind: noop}}]}
"""


@pytest.fixture(scope="module")
def execution(run: Run) -> Any:
    return run(FLOW, script={"e": ["!x", 1], "c": [1]})


@pytest.mark.spec("EVT-02", "S-44", "C-16", "EVT-01")
def test_events_are_numbered_without_gaps(execution: Any) -> None:
    numbers = [event.seq for event in execution.log]

    assert numbers == list(range(1, len(numbers) + 1))
    assert len({event.event_id for event in execution.log}) == len(numbers)
    assert {event.execution_id for event in execution.log} == {"sim"}
    assert all(event.timestamp for event in execution.log)


@pytest.mark.spec(
    "EVT-03", "EVT-04", "EVT-05", "EVT-06", "EVT-07", "C-05", "C-06", "C-07"
)
def test_every_event_has_the_envelope_of_its_name(execution: Any) -> None:
    for event in execution.log:
        kind = EVENTS[event.name]
        assert event.entity_type == kind.entity
        assert event.source in ("server", "worker")
        assert event.status in ("in_progress", "success", "error", "paused", "skipped")
        assert event.entity_id
        assert isinstance(event.payload, dict)


@pytest.mark.spec("EVT-08", "STEP-08", "LOOP-12")
def test_ids_are_there_where_they_apply(execution: Any) -> None:
    for event in execution.log:
        layer = event.name.split(".")[0]
        if layer == "task":
            assert event.step_run_id
            assert event.task_run_id.startswith(event.iteration_id or event.step_run_id)
            assert f":{event.task_label}." in event.task_run_id
            assert event.attempt >= 1
            assert event.action_id
        else:
            assert event.task_run_id is event.task_label is event.attempt is None
        if event.name.startswith("loop.iteration"):
            assert event.iteration_id == event.entity_id


@pytest.mark.spec("EVT-08", "C-16")
def test_ids_are_derived_so_a_second_run_has_the_same(run: Run, execution: Any) -> None:
    again = run(FLOW, script={"e": ["!x", 1], "c": [1]})

    assert again.log == execution.log


@pytest.mark.spec(
    *("EVT-09", "EVT-10", "EVT-11", "EVT-12", "EVT-13", "EVT-14", "EVT-15", "EVT-18"),
    *("EVT-19", "EVT-20", "EVT-21", "C-12", "C-13", "SRV-12"),
)
@pytest.mark.spec("STEP-07")
def test_one_step_in_full(run: Run) -> None:
    flow = """
    - {step: start, tool: [{a: {kind: noop}}], next: {arcs: [{step: end}]}}
    - {step: end}
    """
    names = [(event.name, event.source, event.status) for event in run(flow).log]

    assert names == [
        ("playbook.execution.requested", "server", "in_progress"),
        ("playbook.request.evaluated", "server", "success"),
        ("workflow.started", "server", "in_progress"),
        ("step.scheduled", "server", "in_progress"),
        ("step.started", "worker", "in_progress"),
        ("task.started", "worker", "in_progress"),
        ("task.done", "worker", "success"),
        ("step.done", "worker", "success"),
        ("next.evaluated", "server", "success"),
        ("step.scheduled", "server", "in_progress"),
        ("step.started", "server", "in_progress"),
        ("step.done", "server", "success"),
        ("workflow.finished", "server", "success"),
        ("playbook.processed", "server", "success"),
    ]


@pytest.mark.spec("C-15")
def test_a_step_of_one_task_is_six_rows(execution: Any) -> None:
    rows = [event for event in execution.log if event.step == "start"]

    assert len(rows) == 6


@pytest.mark.spec("C-15", "NEXT-13", "EVT-18")
def test_tokens_can_be_followed_by_their_ids(execution: Any) -> None:
    sent = [
        t["token_id"]
        for e in execution.events("next.evaluated")
        for t in e.payload["fired"]
    ]
    taken = [t for e in execution.events("step.scheduled") for t in e.payload["tokens"]]
    denied = execution.event("step.skipped").payload["tokens"]
    started = [t for e in execution.events("step.started") for t in e.payload["tokens"]]

    assert sorted(["sim.t1", *sent]) == sorted([*taken, *denied])
    assert started == taken


@pytest.mark.spec("EVT-21", "EVT-18")
def test_every_run_starts_once_and_ends_once(execution: Any) -> None:
    scheduled = sorted(e.step_run_id for e in execution.events("step.scheduled"))
    started = sorted(e.step_run_id for e in execution.events("step.started"))
    ended = sorted(e.step_run_id for e in execution.events("step.done", "step.failed"))

    assert scheduled == started == ended


@pytest.mark.spec("EVT-22", "EVT-23", "EVT-24", "EVT-25", "C-09", "C-10", "C-25")
def test_a_loop_in_full(execution: Any) -> None:
    loop = [e for e in execution.log if e.name.startswith("loop.")]

    assert [(e.name, e.entity_id) for e in loop] == [
        ("loop.started", "sim-2"),
        ("loop.iteration.started", "sim-2/0"),
        ("loop.started", "sim-2/0"),
        ("loop.iteration.started", "sim-2/0/0"),
        ("loop.iteration.done", "sim-2/0/0"),
        ("loop.done", "sim-2/0"),
        ("loop.iteration.done", "sim-2/0"),
        ("loop.iteration.started", "sim-2/1"),
        ("loop.started", "sim-2/1"),
        ("loop.iteration.started", "sim-2/1/0"),
        ("loop.iteration.done", "sim-2/1/0"),
        ("loop.done", "sim-2/1"),
        ("loop.iteration.done", "sim-2/1"),
        ("loop.done", "sim-2"),
    ]


@pytest.mark.spec("SRV-13", "EVT-14", "EVT-15")
def test_the_last_two_events_are_the_end(execution: Any) -> None:
    assert execution.names[-2:] == ["workflow.finished", "playbook.processed"]
    assert execution.names.count("workflow.finished") == 1


@pytest.mark.spec("S-15")
def test_every_attempt_has_its_own_pair(execution: Any) -> None:
    pairs = [
        (event.name, event.attempt, event.status)
        for event in execution.events("task.started", "task.done", step="retry")
    ]

    assert pairs == [
        ("task.started", 1, "in_progress"),
        ("task.done", 1, "error"),
        ("task.started", 2, "in_progress"),
        ("task.done", 2, "success"),
    ]


@pytest.mark.spec("WRK-05", "SCOPE-04")
def test_the_log_holds_the_workload_and_only_patches_of_ctx(run: Run) -> None:
    flow = """
    - step: start
      tool:
        - a: {kind: noop, spec: {policy: {rules: [{else: {then:
            {do: continue, set_ctx: {one: 1}}}}]}}}
        - b: {kind: noop, spec: {policy: {rules: [{else: {then:
            {do: continue, set_ctx: {two: 2}}}}]}}}
    """
    execution = run(flow, "workload: {n: 5}\n")
    patches = [e.payload["set_ctx"] for e in execution.events("task.done")]

    assert patches == [{"one": 1}, {"two": 2}]
    assert execution.event("workflow.started").payload["workload"] == {"n": 5}
