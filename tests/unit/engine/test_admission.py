"""The gate of a step: asked once per token, and its answer recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Run = Callable[..., Any]


def gate(*lines: str) -> str:
    return f"""
    - step: start
      next: {{arcs: [{{step: gated, args: {{n: 1}}}}]}}
    - step: gated
      spec: {{policy: {{admit: {{rules: [{", ".join(lines)}]}}}}}}
      tool: [{{work: {{kind: noop}}}}]
      next: {{arcs: [{{step: end}}]}}
    - {{step: end, tool: [{{last: {{kind: noop}}}}]}}
    """


YES = "{when: true, then: {allow: true}}"
NO = "{when: true, then: {allow: false}}"
NEVER_YES = "{when: false, then: {allow: true}}"
NEVER_NO = "{when: false, then: {allow: false}}"


@pytest.mark.spec("ADM-01", "ADM-02", "ADM-03", "ADM-04", "ADM-07", "S-61")
@pytest.mark.parametrize(
    ("lines", "admitted", "rule"),
    [
        pytest.param([YES, NO], True, 0, id="the first match wins"),
        pytest.param([NEVER_YES, NO], False, 1, id="what does not match is passed"),
        pytest.param(
            ["{else: {then: {allow: false}}}", YES], True, 1, id="else comes last"
        ),
        pytest.param(
            [NEVER_NO, "{else: {then: {allow: false}}}"], False, 1, id="else decides"
        ),
        pytest.param(
            [NEVER_YES], False, None, id="a list of permissions denies the rest"
        ),
        pytest.param([NEVER_NO], True, None, id="a list of refusals admits the rest"),
        pytest.param([NEVER_NO, NEVER_YES], False, None, id="any permission is a list"),
        pytest.param(
            ['{when: "{{ args.n == 1 }}", then: {allow: true}}'], True, 0, id="args"
        ),
    ],
)
def test_rules(run: Run, lines: list[str], admitted: bool, rule: int | None) -> None:
    execution = run(gate(*lines))
    name = "step.scheduled" if admitted else "step.skipped"
    event = execution.event(name, step="gated")

    assert event.payload["admit"] == {"allow": admitted, "rule": rule}
    assert execution.labels == (["work", "last"] if admitted else [])


@pytest.mark.spec("ADM-09", "ADM-11", "S-10", "STEP-09")
def test_a_denied_token_is_consumed_and_recorded(run: Run) -> None:
    execution = run(gate(NO))
    skipped = execution.event("step.skipped")

    assert (skipped.status, skipped.step, skipped.step_run_id) == (
        "skipped",
        "gated",
        None,
    )
    assert skipped.payload["tokens"] == ["sim.t2"]
    assert execution.state.status == "completed"
    assert execution.runs_of("gated") == 0


@pytest.mark.spec("ADM-05", "ADM-10")
def test_without_a_gate_every_token_is_admitted(run: Run) -> None:
    execution = run("- {step: start, tool: {kind: noop}}")

    assert execution.event("step.scheduled").payload["admit"]["allow"] is True
    assert execution.event("step.scheduled").step_run_id == "sim-1"


@pytest.mark.spec("ADM-06")
def test_the_first_token_is_asked_too(run: Run) -> None:
    flow = """
    - step: start
      spec: {policy: {admit: {rules: [
        {when: "{{ not event }}", then: {allow: false}}]}}}
      tool: {kind: noop}
    """
    execution = run(flow)

    assert execution.calls == []
    assert execution.state.status == "completed"


@pytest.mark.spec("S-10")
def test_the_gate_is_not_asked_again_when_ctx_changes(run: Run) -> None:
    flow = """
    - step: start
      next: {spec: {mode: inclusive}, arcs: [{step: gated}, {step: opener}]}
    - step: gated
      spec: {policy: {admit: {rules: [{when: "{{ ctx.open }}", then: {allow: true}}]}}}
      tool: [{work: {kind: noop}}]
    - step: opener
      tool: [{open: {kind: noop, spec: {policy: {rules: [{else: {then:
        {do: continue, set_ctx: {open: true}}}}]}}}}]
    """
    execution = run(flow)

    assert execution.labels == ["open"]
    assert execution.state.ctx == {"open": True}


@pytest.mark.spec("S-32")
def test_a_broken_rule_denies_and_fails_the_execution(run: Run) -> None:
    execution = run(gate('{when: "{{ 1 // 0 }}", then: {allow: true}}', YES))

    assert execution.event("step.skipped").payload["admit"]["error"]["kind"] == (
        "template.error"
    )
    assert execution.state.status == "failed"
    assert (execution.state.error["step"], execution.state.error["kind"]) == (
        "gated",
        "template.error",
    )
