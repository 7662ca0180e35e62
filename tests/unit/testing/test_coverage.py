"""Coverage: what the runs have met of a playbook, and what they have not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from noetl.testing.coverage import Coverages

Judge = Callable[..., Any]

FLOW = """
- step: start
  tool:
    - ask:
        kind: http
        url: u
        spec: {policy: {rules: [
          {when: "{{ outcome.status == 'error' }}", then: {do: fail}},
          {else: {then: {do: continue}}}]}}
  next:
    arcs:
      - {step: good, when: "{{ event.name == 'step.done' }}"}
      - {step: bad, when: "{{ event.name == 'step.failed' }}"}
- step: good
  spec: {policy: {admit: {rules: [
    {when: "{{ workload.open | default(true) }}", then: {allow: true}},
    {else: {then: {allow: false}}}]}}}
  tool: {kind: noop}
- {step: bad, tool: {kind: noop}}
"""
OK = "tasks: {start: {result: 1}}\nexpect: {}"
ERROR = "tasks: {start: {http: 500}}\nexpect: {}"
CLOSED = "workload: {open: false}\ntasks: {start: {result: 1}}\nexpect: {}"


def missing(judge: Judge, *cases: str) -> list[str]:
    covered = Coverages()
    for case in cases:
        covered.note(judge(FLOW, case).seen)
    (coverage,) = covered.by_path.values()
    return [spot.name for spot in coverage.missing()]


def test_one_run_meets_a_part(judge: Judge) -> None:
    assert missing(judge, OK) == [
        "start.ask: rule 1: {{ outcome.status == 'error' }}",
        "start → bad",
        "good: admission rule 2: else",
        "bad",
    ]


def test_runs_add_up_to_the_whole(judge: Judge) -> None:
    assert missing(judge, OK, ERROR, CLOSED) == []


def test_a_step_that_is_denied_has_not_run(judge: Judge) -> None:
    assert "good" in missing(judge, CLOSED)
    assert "good: admission rule 2: else" not in missing(judge, CLOSED)


def test_the_document_counts_and_says_where(judge: Judge) -> None:
    covered = Coverages()
    covered.note(judge(FLOW, ERROR).seen)

    assert covered.by_path["tests/t"].as_json() == {
        "steps": {"covered": 2, "total": 3},
        "arcs": {"covered": 1, "total": 2},
        "rules": {"covered": 1, "total": 4},
        "missing": [
            {"kind": "rule", "name": "start.ask: rule 2: else", "line": 13},
            {"kind": "arc", "name": "start → good", "line": 16},
            {"kind": "step", "name": "good", "line": 18},
            {
                "kind": "rule",
                "name": "good: admission rule 1: {{ workload.open | default(true) }}",
                "line": 20,
            },
            {"kind": "rule", "name": "good: admission rule 2: else", "line": 21},
        ],
    }


def test_children_are_covered_under_their_own_path(judge: Judge) -> None:
    covered = Coverages()
    flow = "- {step: s, tool: {kind: playbook, path: c}}"
    covered.note(
        judge(flow, "expect: {}", {"c": "- {step: x, tool: {kind: noop}}"}).seen
    )

    assert {path: each.counts()["steps"] for path, each in covered.by_path.items()} == {
        "tests/t": (1, 1),
        "c": (1, 1),
    }
