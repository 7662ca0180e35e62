"""A step's end, its arcs, and the tokens that go on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Run = Callable[..., Any]

FORK = """
- step: start
  tool: [{work: {kind: noop}}]
  next:
    spec: {mode: %s}
    arcs:
      - {step: a, when: "{{ workload.a }}"}
      - {step: b, when: "{{ workload.b }}"}
      - {step: c}
- {step: a, tool: [{x: {kind: noop}}]}
- {step: b, tool: [{y: {kind: noop}}]}
- {step: c, tool: [{z: {kind: noop}}]}
"""


@pytest.mark.spec("NEXT-02", "NEXT-05", "NEXT-06", "NEXT-13", "ACC-09")
@pytest.mark.parametrize(
    ("mode", "a", "b", "fired"),
    [
        pytest.param("exclusive", True, True, ["a"], id="exclusive: the first"),
        pytest.param("exclusive", False, True, ["b"], id="exclusive: the first true"),
        pytest.param("exclusive", False, False, ["c"], id="exclusive: without guard"),
        pytest.param("inclusive", True, True, ["a", "b", "c"], id="inclusive: all"),
        pytest.param("inclusive", False, True, ["b", "c"], id="inclusive: all true"),
    ],
)
def test_arcs_that_fire(
    run: Run, mode: str, a: bool, b: bool, fired: list[str]
) -> None:
    execution = run(FORK % mode, f"workload: {{a: {a}, b: {b}}}\n".lower())

    assert execution.fired == [fired]
    assert [e.step for e in execution.events("step.scheduled")] == ["start", *fired]


@pytest.mark.spec("NEXT-13", "C-15")
def test_every_arc_has_its_answer_in_the_log(run: Run) -> None:
    payload = run(FORK % "exclusive", "workload: {a: false, b: true}\n")
    routed = payload.event("next.evaluated").payload

    assert routed == {
        "on": "step.done",
        "mode": "exclusive",
        "arcs": [
            {"step": "a", "fired": False, "why": "its guard is false"},
            {"step": "b", "fired": True},
            {"step": "c", "fired": False, "why": "an earlier arc fired"},
        ],
        "fired": [{"token_id": "sim.t2", "step": "b", "args": {}}],
        "handled": False,
    }


def arcs(*lines: str) -> str:
    return f"""
    - step: start
      tool: [{{work: {{kind: noop}}}}]
      next: {{arcs: [{", ".join(lines)}]}}
    - {{step: on, tool: [{{x: {{kind: noop}}}}]}}
    - {{step: fix, tool: [{{y: {{kind: noop}}}}]}}
    """


FAILED = "\"{{ event.name == 'step.failed' }}\""


@pytest.mark.spec("S-08", "S-09", "NEXT-10", "NEXT-14", "SRV-13")
@pytest.mark.parametrize(
    ("lines", "answer", "went", "status"),
    [
        pytest.param(["{step: on}"], 1, ["on"], "completed", id="done goes on"),
        pytest.param(
            ["{step: on}"],
            "!x",
            ["on"],
            "failed",
            id="an unguarded arc handles nothing",
        ),
        pytest.param(
            [f"{{step: fix, when: {FAILED}}}", "{step: on}"],
            "!x",
            ["fix"],
            "completed",
            id="a guarded arc handles the failure",
        ),
        pytest.param(
            [f"{{step: fix, when: {FAILED}}}"], 1, [], "completed", id="a normal end"
        ),
        pytest.param(
            ["{step: on, when: \"{{ event.name == 'step.done' }}\"}"],
            "!x",
            [],
            "failed",
            id="no arc for the failure",
        ),
        pytest.param(
            ["{step: on, when: true}"], "!x", ["on"], "completed", id="when: true asks"
        ),
    ],
)
def test_failures(
    run: Run, lines: list[str], answer: object, went: list[str], status: str
) -> None:
    execution = run(arcs(*lines), script={"work": [answer]})

    assert [step for fired in execution.fired for step in fired] == went
    assert execution.state.status == status
    if status == "failed":
        assert execution.state.error["step"] == "start"
        assert execution.event("workflow.finished").status == "error"


@pytest.mark.spec("S-09")
def test_an_unhandled_failure_lets_the_other_tokens_drain(run: Run) -> None:
    flow = """
    - step: start
      next: {spec: {mode: inclusive}, arcs: [{step: bad}, {step: good}]}
    - {step: bad, tool: [{x: {kind: noop}}]}
    - {step: good, tool: [{y: {kind: noop}}], next: {arcs: [{step: end}]}}
    - {step: end, tool: [{z: {kind: noop}}]}
    """
    execution = run(flow, script={"x": ["!boom"]})

    assert "z" in execution.labels
    assert (execution.state.status, execution.state.error["step"]) == ("failed", "bad")


@pytest.mark.spec("NEXT-11", "NEXT-12", "S-06", "S-07", "NEXT-08")
def test_args_travel_and_arcs_overwrite_them(run: Run) -> None:
    flow = """
    - step: start
      tool: [{work: {kind: noop}}]
      next:
        spec: {mode: inclusive}
        arcs:
          - {step: a, args: {n: 1, found: "{{ event.payload.result.id }}"}}
          - {step: b, args: {n: 2}}
    - step: a
      next: {arcs: [{step: c, args: {n: "{{ args.n + 10 }}"}}]}
    - {step: b, tool: [{y: {kind: noop, v: "{{ args }}"}}]}
    - {step: c, tool: [{z: {kind: noop, v: "{{ args }}"}}]}
    """
    execution = run(flow, script={"work": [{"id": 7}]})
    seen = {call.task.label: call.inputs.get("v") for call in execution.calls}

    assert seen["z"] == {"n": 11, "found": 7}
    assert seen["y"] == {"n": 2}


@pytest.mark.spec("S-32")
@pytest.mark.parametrize(
    ("lines", "status", "went"),
    [
        pytest.param(
            ['{step: on, when: "{{ 1 // 0 }}"}'], "failed", [], id="a broken guard"
        ),
        pytest.param(
            ['{step: on, args: {n: "{{ 1 // 0 }}"}}'], "failed", [], id="broken args"
        ),
        pytest.param(
            ['{step: on, args: {n: "{{ ctx.nothing }}"}}'],
            "failed",
            [],
            id="undefined args",
        ),
        pytest.param(
            ['{step: on, when: "{{ 1 // 0 }}"}', "{step: fix}"],
            "completed",
            ["fix"],
            id="another arc fires instead",
        ),
    ],
)
def test_a_broken_arc_does_not_fire_and_is_not_swallowed(
    run: Run, lines: list[str], status: str, went: list[str]
) -> None:
    execution = run(arcs(*lines))
    first = execution.event("next.evaluated").payload["arcs"][0]

    assert first["error"]["kind"].startswith("template.")
    assert execution.fired == [went]
    assert execution.state.status == status
    if status == "failed":
        assert execution.state.error["step"] == "start"
        assert execution.state.error["kind"].startswith("template.")


@pytest.mark.spec("S-32", "C-11")
def test_a_broken_arc_of_a_loop_fails_once_after_both_boundaries(run: Run) -> None:
    flow = """
    - step: start
      loop: {in: [1], iterator: x}
      tool: [{work: {kind: noop}}]
      next: {arcs: [{step: end, when: "{{ 1 // 0 }}"}]}
    - {step: end, tool: {kind: noop}}
    """
    execution = run(flow)

    assert execution.state.status == "failed"
    assert ["error" in e.payload for e in execution.events("next.evaluated")] == [
        False,
        True,
    ]


@pytest.mark.spec("STEP-04", "S-03", "C-12", "STEP-05", "S-71")
def test_a_routing_step_is_the_servers_own(run: Run) -> None:
    flow = """
    - {step: start, next: {arcs: [{step: end}]}}
    - {step: end, tool: [{x: {kind: noop}}]}
    """
    execution = run(flow)
    mine = [event for event in execution.log if event.step == "start"]

    assert [(event.name, event.source) for event in mine] == [
        ("step.scheduled", "server"),
        ("step.started", "server"),
        ("step.done", "server"),
        ("next.evaluated", "server"),
    ]
    assert mine[2].payload == {"result": None}
    assert execution.events("next.evaluated", step="end") == []


@pytest.mark.spec("S-11")
@pytest.mark.parametrize(
    ("workload", "result"),
    [
        pytest.param("{go: true}", "end", id="of the step where the last token ended"),
        pytest.param("{go: false}", "start", id="of a step whose arcs did not fire"),
    ],
)
def test_the_result_of_the_execution(run: Run, workload: str, result: str) -> None:
    flow = """
    - step: start
      tool: [{a: {kind: noop}}]
      next: {arcs: [{step: end, when: "{{ workload.go }}"}]}
    - {step: end, tool: [{b: {kind: noop}}]}
    """
    script = {"a": ["start"], "b": ["end"]}
    execution = run(flow, f"workload: {workload}\n", script)

    assert execution.event("workflow.finished").payload["result"] == result


@pytest.mark.spec("S-11", "C-11")
@pytest.mark.parametrize(
    "loop",
    [
        pytest.param("", id="after a step"),
        pytest.param("loop: {in: [1], iterator: x}", id="after a loop"),
    ],
)
def test_the_result_is_null_if_a_denied_token_was_the_end(run: Run, loop: str) -> None:
    flow = f"""
    - step: start
      tool: [{{a: {{kind: noop}}}}]
      {loop}
      next: {{arcs: [{{step: end}}]}}
    - step: end
      spec: {{policy: {{admit: {{rules: [{{else: {{then: {{allow: false}}}}}}]}}}}}}
      tool: {{kind: noop}}
    """
    assert run(flow, script={"a": [1]}).state.result is None


@pytest.mark.spec("S-02", "SRV-08")
@pytest.mark.parametrize(
    ("first", "second", "entry"),
    [
        pytest.param("other", "start", "start", id="the step named start"),
        pytest.param("one", "two", "one", id="else the first one"),
    ],
)
def test_the_entry(run: Run, first: str, second: str, entry: str) -> None:
    execution = run(
        f"- {{step: {first}, tool: {{kind: noop}}}}\n"
        f"- {{step: {second}, tool: {{kind: noop}}}}\n"
    )
    (scheduled,) = execution.events("step.scheduled")

    assert scheduled.step == entry
    assert scheduled.payload["args"] == {}


@pytest.mark.spec("S-05", "STEP-08")
def test_two_tokens_at_one_step_are_two_runs(run: Run) -> None:
    flow = """
    - step: start
      next: {spec: {mode: inclusive}, arcs: [{step: end}, {step: end}]}
    - {step: end, tool: [{x: {kind: noop}}]}
    """
    execution = run(flow)
    ids = [
        event.step_run_id for event in execution.events("step.scheduled", step="end")
    ]

    assert ids == ["sim-2", "sim-3"]


LATE = """
- step: start
  tool: [{a: {kind: noop}}]
  next: {spec: {mode: inclusive}, arcs: [{step: on}, {step: late}]}
- {step: on, tool: [{x: {kind: noop}}]}
- {step: fix, tool: [{y: {kind: noop}}]}
- step: late
  tool: [{b: {kind: noop}}]
  next: {arcs: [{step: %s, when: "{{ false }}"}, {step: fix, when: "%s"}]}
"""


@pytest.mark.spec("S-74")
@pytest.mark.parametrize(
    ("target", "other", "unfired"),
    [
        pytest.param("on", "{{ false }}", ["on", "fix"], id="one step is not reached"),
        pytest.param(
            "on", "{{ event.name == 'step.failed' }}", None, id="it needs a failure"
        ),
        pytest.param(
            "late",
            "{{ event.name == 'step.failed' }}",
            None,
            id="the step itself is reached",
        ),
    ],
)
def test_arcs_that_fire_for_no_end_are_recorded_while_a_step_is_not_reached(
    run: Run, target: str, other: str, unfired: list[str] | None
) -> None:
    routed = run(LATE % (target, other)).event("next.evaluated", step="late")

    assert routed.payload.get("unfired") == unfired


@pytest.mark.spec("S-74")
def test_a_step_that_returns_to_itself_alone_leaves_nothing_unfired(run: Run) -> None:
    lines = ['{step: start, when: "{{ false }}"}', f"{{step: fix, when: {FAILED}}}"]

    assert "unfired" not in run(arcs(*lines)).event("next.evaluated").payload


def test_the_steps_reached_before_an_upgrade_are_unknown_and_not_counted(
    prepare: Run,
) -> None:
    execution = prepare(arcs('{step: on, when: "{{ false }}"}'))
    execution.start()
    execution.state.reached = None
    while execution.step():
        pass

    assert "unfired" not in execution.event("next.evaluated").payload


@pytest.mark.spec("S-32")
@pytest.mark.parametrize(
    ("guard", "message"),
    [
        pytest.param("{{ 1 // 0 }}", "the arc to 'on': ", id="an error"),
        pytest.param(
            "{{ range(99999999999999999999) }}",
            "the arc from 'start' to 'on': ",
            id="a budget that its step has used",
        ),
    ],
)
def test_the_error_of_an_arc_names_the_arc(run: Run, guard: str, message: str) -> None:
    execution = run(arcs(f'{{step: on, when: "{guard}"}}'))

    assert execution.state.error["message"].startswith(message)


@pytest.mark.spec("S-12")
def test_the_server_fails_the_step_of_a_loop_whose_iteration_failed(run: Run) -> None:
    flow = """
    - step: start
      loop: {in: [1], iterator: x}
      tool: [{work: {kind: noop}}]
    """
    execution = run(flow, script={"work": ["!boom"]})

    assert execution.event("step.failed").source == "server"
