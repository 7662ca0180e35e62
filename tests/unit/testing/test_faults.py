"""Workers that die: what is recorded stays, what is not is done again, or in doubt."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from noetl.engine.evolve import replay
from noetl.engine.simulate import Diverged, Simulation

Judge = Callable[..., Any]

FLOW = """
- step: start
  tool:
    - first: {kind: http, url: a}
    - pay: {kind: http, method: POST, url: b, spec: {on_in_doubt: %s}}
    - last: {kind: noop, result: "{{ _prev }}"}
"""
AGAIN, FAIL = FLOW % "retry", FLOW % "fail"
PAID = "start.first: {result: 1}, start.pay: [{dies: %s}, {result: paid}]"


@pytest.mark.spec("S-45", "REP-01")
@pytest.mark.parametrize(
    ("when", "calls"), [("before_call", 1), ("before_report", 2)], ids=str
)
def test_another_worker_goes_on_after_what_is_recorded(
    judge: Judge, when: str, calls: int
) -> None:
    case = f"""
        tasks: {{{PAID % when}}}
        expect:
          result: paid
          calls: {{start.first: 1, start.pay: {calls}, start.last: 1}}
          events:
            - {{name: task.started, task: pay}}
            - {{name: task.started, task: pay, payload: {{in_doubt: 1}}}}
            - {{name: task.done, task: pay, attempt: 1}}
    """

    judged = judge(AGAIN, case)

    assert judged.passed, judged.messages


@pytest.mark.spec("S-45")
@pytest.mark.parametrize("when", ["before_call", "before_report"])
def test_what_must_not_be_done_twice_fails_in_doubt(judge: Judge, when: str) -> None:
    expect = "{error: worker.lost, calls: {start.last: 0}}"
    case = f"tasks: {{{PAID % when}}}\nexpect: {expect}"

    judged = judge(FAIL, case)

    assert judged.passed, judged.messages


def test_the_first_task_can_be_lost_and_the_step_starts_once(judge: Judge) -> None:
    case = """
        tasks:
          start.first: [{dies: before_report}, {result: 1}]
          start.pay: {result: 2}
        expect: {result: 2}
    """

    judged = judge(AGAIN, case)
    names = [event.name for event in judged.seen.log]

    assert judged.passed, judged.messages
    assert names.count("step.started") == 1


def test_a_death_in_a_sequence_takes_its_turn(judge: Judge) -> None:
    case = """
        tasks:
          start.first: {result: 1}
          start.pay:
            answers:
              - {dies: before_call}
              - {dies: before_report, delay: 2s}
              - {result: 3}
        expect: {result: 3, duration: 2s, calls: {start.pay: 2}}
    """

    judged = judge(AGAIN, case)

    assert judged.passed, judged.messages


def test_each_attempt_dies_once(judge: Judge) -> None:
    flow = """
        - step: s
          tool:
            - a:
                kind: http
                url: u
                spec:
                  policy:
                    rules:
                      - when: "{{ outcome.error.retryable }}"
                        then: {do: retry, attempts: 2}
                      - else: {then: {do: continue}}
    """
    case = """
        tasks: {s.a: [{dies: before_report}, {attempt: 1, http: 503}, {result: 1}]}
        expect: {result: 1, calls: {s.a: 4}}
    """

    judged = judge(flow, case)

    assert judged.passed, judged.messages


def test_in_a_loop_only_the_lost_iteration_is_repeated(judge: Judge) -> None:
    flow = """
        - step: s
          loop: {in: [1, 2, 3], iterator: x, spec: {mode: parallel}}
          tool:
            - a: {kind: http, url: u, params: {x: "{{ iter.x }}"}}
            - b: {kind: noop, result: "{{ _prev }}"}
    """
    case = """
        schedules: 30
        tasks:
          s.a:
            - {iteration: 1, dies: before_report}
            - {result: "{{ inputs.params.x }}"}
        expect: {result: [1, 2, 3], calls: {s.a: 4, s.b: 3}}
    """

    judged = judge(flow, case)

    assert judged.passed, judged.messages
    assert judged.verdict.runs == 30


def test_a_log_that_folds_into_another_state_is_said(
    judge: Judge, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forgetful(self: Simulation) -> None:
        state = replay(self.log[:-1])
        if state != self.state:
            raise Diverged("the state folded from the log differs from the live state")

    monkeypatch.setattr(Simulation, "recover", forgetful)
    judged = judge(AGAIN, f"tasks: {{{PAID % 'before_call'}}}\nexpect: {{}}")

    assert judged.messages == [
        "the state folded from the log differs from the live state"
    ]
    assert judged.verdict.faults[0].log
