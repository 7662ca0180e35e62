"""The log in words: who decided, by which rule or arc, and why not otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from noetl.testing.describe_events import Narrator

Judge = Callable[..., Any]


def told(judge: Judge, flow: str, case: str, **options: Any) -> list[str]:
    """Every line of the log, its number and time aside."""
    judged = judge(flow, case, **options)
    seen = judged.seen
    narrator = Narrator(seen.playbook, seen.log[0].timestamp)
    return [narrator.tell(event).split(" s  ", 1)[1] for event in seen.log]


RULES = """
- step: s
  tool:
    - a:
        kind: http
        url: u
        spec: {policy: {rules: [
          {when: "{{ outcome.http.status == 404 }}", then: {do: continue}},
          {when: "{{ outcome.error.retryable }}",
           then: {do: retry, attempts: 2, delay: 3}},
          {when: "{{ outcome.result == 1 }}", then: {do: jump, to: b}}]}}
    - b: {kind: noop, result: 2}
"""


@pytest.mark.parametrize(
    ("answer", "line"),
    [
        ("http: 404", "→ continue (rule 1, line 12: {{ outcome.http.status == 404 }})"),
        (
            "http: 503",
            "→ retry in 3 s (rule 2, line 13: {{ outcome.error.retryable }})",
        ),
        (
            "http: 503",
            "s.a, attempt 2: error http.server: 503 from the scripted server → fail "
            "(rule 2, line 13: {{ outcome.error.retryable }}, all 2 attempts used)",
        ),
        (
            "result: 1",
            "s.a: ok 1 → jump to b (rule 3, line 15: {{ outcome.result == 1 }})",
        ),
        ("result: 5", "s.a: ok 5 → continue (no rule matched)"),
        ("result: 5", "s.b: ok 2 → continue (it has no rules)"),
    ],
)
def test_a_verdict_names_its_rule(judge: Judge, answer: str, line: str) -> None:
    lines = told(judge, RULES, f"tasks: {{s.a: {{{answer}}}}}\nexpect: {{}}")

    assert any(line in each for each in lines), lines


FLOW = """
- step: s
  tool: {kind: http, url: u}
  next:
    arcs:
      - {step: a, when: "{{ event.payload.result > 5 }}"}
      - {step: b, when: "{{ event.name == 'step.done' }}", args: {x: "{{ ctx.no }}"}}
      - {step: c, when: "{{ event.name == 'step.done' }}"}
      - {step: a}
- {step: a, tool: {kind: noop}}
- {step: b, tool: {kind: noop}}
- step: c
  spec: {policy: {admit: {rules: [{when: "{{ args.ok }}", then: {allow: true}}]}}}
  tool: {kind: noop}
"""


def test_an_arc_says_why_not(judge: Judge) -> None:
    lines = told(judge, FLOW, "tasks: {s: {result: 1}}\nexpect: {}")

    (routing,) = [each for each in lines if each.startswith("step s on")]
    assert routing.startswith(
        "step s on step.done: → a (line 10) did not: {{ event.payload.result > 5 }} is "
        "false; → b (line 11) did not: the arc to 'b': "
    )
    assert routing.endswith(
        "→ c (line 12) fired; → a (line 13) did not: an earlier arc fired"
    )
    denied = "step c denied: no admission rule matched"
    read = "an admission rule read args.ok, which nothing gave"
    assert f"{denied}; {read}" in lines


def test_a_gate_that_fails_says_how(judge: Judge) -> None:
    flow = """
        - step: s
          spec: {policy: {admit: {rules: [{when: "{{ 1 / 0 }}", then: {allow: true}}]}}}
          tool: {kind: noop}
    """
    lines = told(judge, flow, "expect: {}")

    assert any(each.startswith("step s denied: admit: ") for each in lines), lines


def test_waits_signals_children_and_ends_are_narrated(judge: Judge) -> None:
    flow = """
        - step: s
          tool:
            - w: {kind: wait, signal: go}
            - t: {kind: wait, for: 60}
            - c: {kind: playbook, path: c}
    """
    lines = told(
        judge,
        flow,
        "signals: [{signal: go, data: {a: 1}}]\nexpect: {}",
        children={"c": "- {step: x, tool: {kind: noop}}"},
    )

    for line in (
        "s.w waits: signal go",
        'signal go: {"a":1}',
        "s.t waits: until 2026-01-01T00:01:00.000000Z",
        "s.c waits: playbook c",
        "step s done: null",
        "the execution completed",
    ):
        assert line in lines


def test_a_lost_worker_and_a_refused_patch_are_narrated(judge: Judge) -> None:
    flow = """
        - step: s
          loop: {in: [1, 2], iterator: x, spec: {mode: parallel}}
          tool:
            - a: {kind: http, url: u, spec: {policy: {rules: [
                {else: {then: {do: continue, set_ctx: {n: "{{ iter.x }}"}}}}]}}}
    """
    case = "tasks: {s: [{iteration: 0, dies: before_call}, {result: 1}]}\nexpect: {}"
    lines = told(judge, flow, case)

    assert "s[0].a begins: its worker was lost, it starts again" in lines
    assert any("ctx.n was written by another iteration" in each for each in lines)
    assert any(each.startswith("s[1] failed: ctx.conflict: ") for each in lines)
    assert any(each.startswith("step s failed: [1] ctx.conflict") for each in lines)


def test_a_cancelled_execution_says_by_what(judge: Judge) -> None:
    flow = """
        executor: {spec: {deadline: 5s}}
        workflow: [{step: s, tool: {kind: wait, signal: never}}]
    """
    lines = told(judge, flow, "expect: {status: cancelled}")

    assert any(each.startswith("cancelled: timeout: the execution") for each in lines)
