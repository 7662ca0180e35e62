"""Child playbooks of a test: scripted as an outcome, or run for real."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Judge = Callable[..., Any]

PARENT = """
- step: s
  tool:
    - call: {kind: playbook, path: c, args: {n: 2}}
    - say: {kind: noop, result: "{{ _prev }}"}
"""
CHILD = """
workload: {n: 1, m: 5}
workflow:
  - step: ask
    tool:
      - get: {kind: http, url: "u/{{ workload.n }}"}
      - nap: {kind: wait, for: 1m}
      - end: {kind: noop, result: "{{ workload.m }}"}
"""


def test_a_child_runs_for_real_on_its_own_answers(judge: Judge) -> None:
    case = """
        playbooks: {c: {tasks: {ask.get: {result: "{{ inputs.url }}"}}}}
        expect:
          result: 5
          duration: 1m
          events: [{name: task.resumed, task: call}]
    """

    judged = judge(PARENT, case, {"c": CHILD})

    assert judged.passed, judged.messages
    ((playbook, log),) = judged.seen.others
    assert playbook.path == "c"
    assert log[0].payload["parent"]["execution_id"] == "sim"


def test_a_childs_call_without_an_answer_fails_with_a_hint(
    judge: Judge,
) -> None:
    (fault,) = judge(PARENT, "expect: {}", {"c": CHILD}).verdict.faults

    assert fault.message == (
        "ask.get (http) of playbook 'c' was called, but it has no answer"
    )
    assert fault.hint == "add one: playbooks: {c: {tasks: {ask.get: {result: …}}}}"


def test_a_child_can_be_scripted(judge: Judge) -> None:
    assert judge(PARENT, "tasks: {s.call: {result: 9}}\nexpect: {result: 9}").passed
    failed = (
        "tasks: {s.call: {error: playbook.failed}}\nexpect: {error: playbook.failed}"
    )
    assert judge(PARENT, failed).passed


@pytest.mark.spec("S-37")
def test_a_child_that_fails_is_an_error_of_its_caller(judge: Judge) -> None:
    case = """
        playbooks: {c: {tasks: {ask.get: {http: 500}}}}
        expect: {error: {kind: playbook.failed, message: "500", step: s}}
    """

    judged = judge(PARENT, case, {"c": CHILD})

    assert judged.passed, judged.messages


@pytest.mark.spec("S-37")
def test_a_child_that_is_not_there_is_an_outcome(judge: Judge) -> None:
    judged = judge(PARENT, "expect: {error: playbook.not_found}")

    assert judged.passed, judged.messages


@pytest.mark.spec("S-37")
def test_calling_oneself_ends_at_the_depth_limit(judge: Judge) -> None:
    flow = "- {step: s, tool: {kind: playbook, path: me}}"
    judged = judge(flow, "expect: {error: {kind: playbook.failed}}", {"me": flow})

    assert judged.passed, judged.messages
    assert len(judged.seen.others) == 15


@pytest.mark.spec("S-37", "S-38")
def test_a_caller_that_is_cancelled_cancels_its_child(judge: Judge) -> None:
    flow = f"executor: {{spec: {{deadline: 10s}}}}\nworkflow:{PARENT}"
    case = """
        playbooks: {c: {tasks: {ask.get: {result: 1, delay: 30s}}}}
        expect: {status: cancelled, duration: 10s}
    """

    judged = judge(flow, case, {"c": CHILD})
    ((_, log),) = judged.seen.others

    assert judged.passed, judged.messages
    assert log[-1].payload == {"status": "cancelled"}


def test_children_in_a_loop_count_their_answers_by_iteration(judge: Judge) -> None:
    flow = """
        - step: s
          loop: {in: [a, b, c], iterator: x, spec: {mode: parallel}}
          tool: {kind: playbook, path: c, args: {x: "{{ iter.x }}"}}
    """
    child = """
        workload: {x: null}
        workflow:
          - step: one
            tool: {kind: http, url: u}
            next: {arcs: [{step: two, when: "{{ event.name == 'step.done' }}"}]}
          - step: two
            loop: {in: [1, 2], iterator: y}
            tool: {kind: http, url: u}
    """
    case = """
        schedules: 25
        playbooks:
          c:
            tasks:
              one: {result: 0, delay: 1s}
              two: {answers: [{result: "{{ workload.x }}"}, {result: never}]}
        expect: {result: [[a, a], [b, b], [c, c]], duration: 1s}
    """

    judged = judge(flow, case, {"c": child})

    assert judged.passed, judged.messages


def test_a_signal_reaches_the_child_that_waits_for_it(judge: Judge) -> None:
    child = "- {step: s, tool: {kind: wait, signal: go}}"
    case = "signals: [{signal: go, data: 3}]\nexpect: {result: 3}"

    assert judge(PARENT, case, {"c": child}).passed


def test_large_values_go_into_a_child_and_come_back(judge: Judge) -> None:
    flow = """
        - step: s
          tool:
            - make: {kind: http, url: u}
            - call: {kind: playbook, path: c, args: {text: "{{ _prev }}"}}
            - len: {kind: noop, result: "{{ _prev | length }}"}
    """
    child = "- {step: s, tool: {kind: noop, result: '{{ workload.text }}'}}"
    case = "tasks: {s.make: {result: \"{{ 'x' * 90000 }}\"}}\nexpect: {result: 90000}"

    judged = judge(flow, case, {"c": child})

    assert judged.passed, judged.messages
