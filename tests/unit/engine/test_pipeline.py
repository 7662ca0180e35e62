"""The program counter of one pipeline: order, jumps, ``_prev``, visits, limits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from noetl.engine.runs import begin
from noetl.engine.state import Frame
from noetl.engine.tasks.outcome import Meta, Outcome
from noetl.engine.tasks.pipeline import Call, Ended, Pipeline, Wait

Run = Callable[..., Any]

JUMPY = """
- step: start
  tool:
    - fetch: {kind: noop, v: "{{ _prev }}"}
    - check:
        kind: noop
        v: "{{ _prev }}"
        spec:
          policy:
            rules:
              - {when: "{{ outcome.result == 'again' }}", then: {do: jump, to: fetch}}
              - {when: "{{ outcome.result == 'over' }}", then: {do: jump, to: last}}
              - {when: "{{ outcome.status == 'error' }}", then: {do: retry}}
              - {else: {then: {do: continue}}}
    - middle: {kind: noop}
    - last: {kind: noop, v: "{{ _prev }}"}
"""


@pytest.mark.spec("PIPE-07", "PIPE-08", "DIR-01", "DIR-09", "DIR-10", "PIPE-06")
@pytest.mark.parametrize(
    ("answers", "labels"),
    [
        pytest.param(["x"], "fetch check middle last", id="in order"),
        pytest.param(["over"], "fetch check last", id="a jump ahead"),
        pytest.param(
            ["again", "again", "x"],
            "fetch check fetch check fetch check middle last",
            id="jumps back",
        ),
    ],
)
def test_order(run: Run, answers: list[str], labels: str) -> None:
    assert run(JUMPY, script={"check": answers}).labels == labels.split()


@pytest.mark.spec("S-13", "DIR-02", "SCOPE-07")
@pytest.mark.parametrize(
    ("check", "seen"),
    [
        pytest.param(["x"], [None, 1, None, "m"], id="null at first, then the result"),
        pytest.param(
            ["again", "x"], [None, 1, "again", 1, None, "m"], id="a jump carries it"
        ),
        pytest.param(
            ["!e", "x"], [None, 1, 1, None, "m"], id="a retry does not change it"
        ),
    ],
)
def test_prev(run: Run, check: list[str], seen: list[object]) -> None:
    script = {"fetch": [1], "check": check, "middle": ["m"]}

    assert run(JUMPY, script=script).seen == seen


@pytest.mark.spec("S-13")
def test_prev_is_null_after_an_error_and_never_crosses_steps(run: Run) -> None:
    flow = """
    - step: start
      tool:
        - a: {kind: noop}
        - b: {kind: noop, spec: {policy: {rules: [{else: {then: {do: continue}}}]}}}
        - c: {kind: noop, v: "{{ _prev }}"}
      next: {arcs: [{step: end}]}
    - {step: end, tool: [{d: {kind: noop, v: "{{ _prev }}"}}]}
    """
    execution = run(flow, script={"a": [1], "b": ["!x"], "c": [3]})

    assert execution.seen == [None, None, None, None]


@pytest.mark.spec("S-14", "DIR-06")
def test_every_visit_is_a_new_task_run_and_counts_attempts_from_one(run: Run) -> None:
    execution = run(JUMPY, script={"check": ["!e", "again", "!e", "!e", "x"]})
    checks = [e for e in execution.events("task.done") if e.task_label == "check"]

    assert [(e.task_run_id, e.attempt) for e in checks] == [
        ("sim-1:check.1", 1),
        ("sim-1:check.1", 2),
        ("sim-1:check.2", 1),
        ("sim-1:check.2", 2),
        ("sim-1:check.2", 3),
    ]


@pytest.mark.spec("S-60")
def test_retries_share_an_action_and_visits_do_not(run: Run) -> None:
    execution = run(JUMPY, script={"check": ["!e", "again", "x"]})
    actions = [
        event.action_id
        for event in execution.events("task.done")
        if event.task_label == "check"
    ]

    assert actions[0] == actions[1] != actions[2]
    assert [(call.action_id, call.task_run_id) for call in execution.calls] == [
        (event.action_id, event.task_run_id)
        for event in execution.events("task.started")
    ]


@pytest.mark.spec("S-17", "S-36")
def test_a_jump_to_itself_is_a_visit_not_an_attempt(run: Run) -> None:
    flow = """
    - step: start
      tool:
        - poll:
            kind: noop
            v: "{{ _attempt }}"
            spec: {policy: {rules: [{when: "{{ not outcome.result }}",
              then: {do: jump, to: poll}}]}}
    """
    execution = run(flow, script={"poll": [0, 0, 0, 1]})

    assert execution.seen == [1, 1, 1, 1]
    assert execution.events("task.done")[-1].task_run_id == "sim-1:poll.4"


ENDLESS = """
- step: start
  tool:
    - spin:
        kind: noop
        spec: {policy: {rules: [{else: {then: {do: jump, to: spin}}}]}}
"""


@pytest.mark.spec("S-36", "S-17")
def test_no_rule_can_outrun_the_limit_of_tasks(run: Run) -> None:
    execution = run(ENDLESS, "executor: {spec: {limits: {task_runs: 5}}}\n")

    assert len(execution.calls) == 5
    assert execution.state.status == "failed"
    assert execution.state.error["kind"] == "limit.exceeded"


@pytest.mark.spec("S-36")
def test_a_cycle_of_steps_ends_at_its_limit(run: Run) -> None:
    flow = "- {step: start, tool: [{a: {kind: noop}}], next: {arcs: [{step: start}]}}"
    execution = run(flow, "executor: {spec: {limits: {step_runs: 4}}}\n")

    assert execution.runs_of("start") == 4
    assert execution.state.status == "failed"
    assert execution.state.error["kind"] == "limit.exceeded"


@pytest.mark.spec("S-11", "PIPE-09")
def test_the_result_of_a_step_is_that_of_its_last_task(run: Run) -> None:
    flow = "- {step: start, tool: [{a: {kind: noop}}, {b: {kind: noop}}]}"
    execution = run(flow, script={"a": [1], "b": [{"rows": 2}]})

    assert execution.event("step.done").payload == {"result": {"rows": 2}}
    assert execution.state.result == {"rows": 2}


@pytest.mark.spec("S-15", "POL-10", "POL-11", "SCOPE-04")
def test_outcome_directive_and_patches_are_one_event(run: Run) -> None:
    flow = """
    - step: start
      loop: {in: [1], iterator: x}
      tool:
        - a:
            kind: noop
            spec: {policy: {rules: [{else: {then: {do: continue,
              set_iter: {page: 2}, set_ctx: {seen: "{{ outcome.result }}"}}}}]}}
    """
    payload = run(flow, script={"a": [9]}).event("task.done").payload

    assert payload["outcome"]["result"] == 9
    assert payload["directive"] == {"do": "continue", "rule": 0, "next": None}
    assert (payload["set_iter"], payload["set_ctx"]) == ({"page": 2}, {"seen": 9})


@pytest.mark.spec("S-20", "POL-11")
def test_a_patch_is_visible_at_once_in_its_own_pipeline(run: Run) -> None:
    flow = """
    - step: start
      tool:
        - a: {kind: noop, spec: {policy: {rules: [{else: {then:
            {do: continue, set_ctx: {n: 7}}}}]}}}
        - b: {kind: noop, v: "{{ ctx.n }}"}
    """
    assert run(flow).seen == [None, 7]


@pytest.mark.spec("S-68", "WKR-04")
def test_a_new_owner_goes_on_where_the_recorded_tasks_end(prepare: Run) -> None:
    """After each move a fresh Pipeline takes over: the simulation works like that.

    Here one Pipeline lives through all of it, and makes the same moves.
    """
    execution = prepare(JUMPY, script={"check": ["!e", "again", "x"]})
    execution.run()
    tasks = execution.playbook.steps["start"].tasks
    frame = Frame("sim", "", "start", "sim-1", (), {}, {}, {})
    pipeline = Pipeline(tasks, frame, begin("fetch", None))
    answers = {"check": ["!e", "again", "x"]}
    directives = []
    while not isinstance(move := pipeline.next(), Ended):
        if isinstance(move, Call):
            label = move.task.label
            given = answers[label].pop(0) if label in answers else None
            outcome = Outcome.failed("e", "x") if given == "!e" else Outcome.ok(given)
            done = pipeline.take(outcome, Meta(move.attempt, "", "", 0.0))
            directives.append(f"{label} {done['directive']['do']}")

    assert directives == execution.directives
    assert move == Ended("done", None, None)


@pytest.mark.spec("S-68", "DIR-08")
def test_a_delay_is_a_move_of_its_own(prepare: Run) -> None:
    flow = """
    - step: start
      tool: [{a: {kind: noop, spec: {policy: {rules: [
        {when: "{{ outcome.error }}", then: {do: retry, delay: 4}}]}}}}]
    """
    tasks = prepare(flow).playbook.steps["start"].tasks
    frame = Frame("sim", "", "start", "sim-1", (), {}, {}, {})
    pipeline = Pipeline(tasks, frame, begin("a", None))
    call = pipeline.next()
    assert isinstance(call, Call)
    pipeline.take(Outcome.failed("x", "x"), Meta(1, "", "", 0.0))

    assert pipeline.next() == Wait(4.0)
    again = pipeline.next()
    assert isinstance(again, Call)
    assert again.attempt == 2


@pytest.mark.spec("OUT-01", "OUT-02", "OUT-04", "OUT-05", "OUT-06", "OUT-07", "C-44")
def test_the_outcome_envelope(run: Run) -> None:
    flow = "- {step: start, tool: [{a: {kind: noop}}]}"
    good = run(flow, script={"a": [1]}).event("task.done").payload["outcome"]
    bad = run(flow, script={"a": ["!k"]}).event("task.done").payload["outcome"]

    assert good["status"] == "ok"
    assert bad["status"] == "error"
    assert (good["result"], good["error"]) == (1, None)
    assert bad["result"] is None
    assert set(bad["error"]) == {"kind", "message", "retryable", "details"}
    assert set(good["meta"]) == {
        *("attempt", "started_at", "ts", "duration_ms", "trace_id", "span_id")
    }


@pytest.mark.spec("OUT-09", "OUT-10", "S-30", "OUT-11", "OUT-12")
@pytest.mark.parametrize(
    ("kind", "inputs", "helper", "members"),
    [
        pytest.param(
            "http", "url: 'http://x'", "http", {"status", "headers"}, id="http"
        ),
        pytest.param("python", "code: x", "py", {"exception_type"}, id="python"),
        pytest.param(
            "postgres", "auth: k, query: x", "pg", {"code", "sqlstate"}, id="pg"
        ),
    ],
)
def test_helpers_are_there_even_if_the_call_never_got_so_far(
    run: Run, kind: str, inputs: str, helper: str, members: set[str]
) -> None:
    root = "keychain: [{name: k, kind: postgres_credential}]\n"
    flow = f"- {{step: start, tool: [{{a: {{kind: {kind}, {inputs}}}}}]}}"
    outcome = run(flow, root, {"a": ["!connection"]}).event("task.done").payload

    given = outcome["outcome"][helper]
    assert members <= given.keys()
    assert set(given.values()) == {None}


@pytest.mark.spec("S-45")
@pytest.mark.parametrize(
    ("most", "lost", "made"), [(5, 4, True), (5, 5, False), (None, 50, True)]
)
def test_a_call_that_costs_workers_has_an_end(
    prepare: Run, most: int | None, lost: int, made: bool
) -> None:
    """I-20: in a row, and while the tool ran."""
    tasks = prepare("- {step: s, tool: [{a: {kind: noop}}]}").playbook.steps["s"].tasks
    frame = Frame("sim", "", "s", "sim-1", (), {}, {}, {}, most_lost=most)
    progress = begin("a", None)
    progress.started, progress.in_doubt = True, lost - 1

    call = Pipeline(tasks, frame, progress).next()

    assert isinstance(call, Call)
    assert (call.outcome is None) is made
    if call.outcome is not None and call.outcome.error is not None:
        assert call.outcome.error.kind == "worker.lost"
        assert call.outcome.error.message == (
            "5 workers in a row were lost while they ran 'a': it is not run again"
        )
