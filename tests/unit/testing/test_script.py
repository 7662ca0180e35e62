"""What tasks answer: each way to say it, with calls that it is meant for and not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Judge = Callable[..., Any]

ONE = """
- step: start
  tool:
    - ask:
        kind: http
        url: "http://x/{{ workload.id | default(1) }}"
        spec:
          timeout: 5s
          policy:
            rules:
              - when: "{{ outcome.error.retryable }}"
                then: {do: retry, attempts: 4, delay: 1}
              - else: {then: {do: continue, set_ctx: {seen: "{{ outcome }}"}}}
    - say: {kind: noop, result: "{{ _prev }}"}
"""
PAGES = """
- step: start
  loop: {in: [a, b], iterator: name}
  tool:
    - ask:
        kind: http
        url: "http://x/{{ iter.name }}"
        spec:
          policy:
            rules:
              - when: "{{ outcome.error.retryable }}"
                then: {do: retry, attempts: 3}
              - when: "{{ outcome.result == 'more' }}"
                then: {do: jump, to: ask}
              - else: {then: {do: break}}
"""


@pytest.mark.parametrize(
    ("answers", "expect"),
    [
        pytest.param("result: 7", "result: 7", id="a result"),
        pytest.param("result: null", "result: null", id="nothing, successfully"),
        pytest.param(
            'result: {at: "{{ inputs.url }}", n: "{{ call + attempt + visit }}"}',
            "result: {at: http://x/1, n: 3}",
            id="a result made of the call",
        ),
        pytest.param(
            "result: 7",
            "ctx: {seen: {$subset: {http: {status: 200, headers: {}}}}}",
            id="an http result has a status",
        ),
        pytest.param(
            "error: timeout",
            "ctx: {seen: {$subset: {status: error, error: {kind: timeout, message: "
            "scripted, retryable: false, details: {}}, http: {status: null}}}}",
            id="an error by its kind",
        ),
        pytest.param(
            "error: {kind: a.b, message: 'no {{ inputs.url }}', details: {x: 1}}",
            "ctx: {seen: {$subset: {error: {kind: a.b, message: 'no http://x/1', "
            "details: {x: 1}}}}}",
            id="an error in full",
        ),
        pytest.param(
            "error: {kind: connection}, helper: {status: 418}",
            "ctx: {seen: {$subset: {http: {status: 418}}}}",
            id="members of the helper object",
        ),
        pytest.param(
            "http: 204",
            "ctx: {seen: {$subset: {status: ok, result: null, http: {status: 204}}}}",
            id="a status that is success",
        ),
        pytest.param(
            "http: {status: 404, headers: {X-Request-Id: 7, Age: 3}, body: {e: 1}}",
            "ctx: {seen: {$subset: {error: {kind: http.client, retryable: false, "
            "details: {body: {e: 1}}}, http: {status: 404, request_id: '7', "
            "headers: {age: '3', x-request-id: '7'}}}}}",
            id="a status that is failure, with headers and a body",
        ),
        pytest.param(
            "http: {status: 200, body: 5, request_id: r}",
            "{result: 5, ctx: {seen: {$subset: {http: {request_id: r}}}}}",
            id="a body",
        ),
        pytest.param(
            "answers: [{http: 503}, {http: 429}, {result: 7}]",
            "{result: 7, calls: {start.ask: 3}}",
            id="one after the other",
        ),
        pytest.param(
            "answers: [{http: 503}]",
            "{error: http.server, calls: {start.ask: 4}}",
            id="the last one stays",
        ),
    ],
)
def test_an_answer_becomes_an_outcome(judge: Judge, answers: str, expect: str) -> None:
    expect = expect if expect.startswith("{") else f"{{{expect}}}"

    judged = judge(ONE, f"tasks: {{start.ask: {{{answers}}}}}\nexpect: {expect}")

    assert judged.passed, judged.messages


@pytest.mark.parametrize(
    ("selector", "calls", "result"),
    [
        pytest.param("attempt: 1", 4, ["x", "x"], id="first attempts"),
        pytest.param("attempt: [1, 2]", 6, ["x", "x"], id="two attempts"),
        pytest.param("visit: 2", 2, ["x", "x"], id="a visit that nobody makes"),
        pytest.param("call: 2", 3, ["x", "x"], id="the second call of all"),
        pytest.param("iteration: 1, attempt: 1", 3, ["x", "x"], id="an iteration"),
        pytest.param("iteration: [0], attempt: 1", 3, ["x", "x"], id="by its path"),
        pytest.param("iteration: [0, 1]", 2, ["x", "x"], id="a path too deep"),
        pytest.param(
            "when: \"{{ iter.name == 'b' and attempt == 1 and inputs.url }}\"",
            3,
            ["x", "x"],
            id="by a condition",
        ),
    ],
)
def test_a_selector_chooses_calls(
    judge: Judge, selector: str, calls: int, result: list[str]
) -> None:
    case = f"""
        tasks: {{start: [{{{selector}, http: 503}}, {{result: x}}]}}
        expect: {{result: {result}, calls: {{start: {calls}}}}}
    """

    judged = judge(PAGES, case)

    assert judged.passed, judged.messages


def test_a_visit_is_one_more_jump(judge: Judge) -> None:
    case = """
        tasks: {start: [{visit: 3, result: end}, {result: more}]}
        expect: {result: [end, end], calls: {start: 6}}
    """

    assert judge(PAGES, case).passed


def test_answers_are_counted_in_each_iteration(judge: Judge) -> None:
    case = """
        tasks: {start: {answers: [{result: more}, {result: "{{ iter.name }}"}]}}
        expect: {result: [a, b], calls: {start: 4}}
    """

    assert judge(PAGES, case).passed


def test_the_case_is_asked_before_the_file(judge: Judge) -> None:
    shared = "tasks: {start: {result: file}}"
    case = (
        "tasks: {start: [{iteration: 0, result: case}]}\nexpect: {result: [case, file]}"
    )

    assert judge(PAGES, case, shared=shared).passed


def test_workloads_are_merged_the_case_wins(judge: Judge) -> None:
    flow = """
        workload: {a: 1, b: {c: 2}}
        workflow: [{step: s, tool: {kind: noop, result: "{{ workload }}"}}]
    """
    case = "workload: {b: {d: 5}}\nexpect: {result: {a: 1, b: {c: 3, d: 5}}}"

    assert judge(flow, case, shared="workload: {b: {c: 3, d: 4}}").passed


def test_a_noop_runs_by_itself_and_can_be_scripted(judge: Judge) -> None:
    flow = "- {step: s, tool: [{a: {kind: noop, result: 1}}]}"

    assert judge(flow, "expect: {result: 1}").passed
    assert judge(flow, "tasks: {s.a: {real: true}}\nexpect: {result: 1}").passed
    assert judge(flow, "tasks: {s.a: {result: 2}}\nexpect: {result: 2}").passed


def test_a_call_without_an_answer_fails_with_a_hint(judge: Judge) -> None:
    judged = judge(ONE, "expect: {status: failed}")

    assert judged.messages == ["start.ask (http) was called, but it has no answer"]
    (fault,) = judged.verdict.faults
    assert fault.hint == "add one: tasks: {start.ask: {result: …}}"


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ('{result: "{{ inputs.nothing }}"}', "result: inputs.nothing is undefined"),
        ('{error: {kind: "{{ call }}"}}', "error: Expected `str`, got `int`"),
        ('{when: "{{ inputs.url > 1 }}", result: 1}', "when: "),
        ('{result: 1, delay: "{{ inputs.url }}"}', "result: delay: "),
    ],
)
def test_an_answer_that_cannot_be_made_is_said_where_it_stands(
    judge: Judge, answer: str, message: str
) -> None:
    judged = judge(ONE, f"tasks:\n  start.ask: {answer}\nexpect: {{}}")

    assert judged.messages[0].startswith(message)
    assert judged.verdict.faults[0].at.mark == (5, 18)


def test_a_statuses_knob_is_obeyed(judge: Judge) -> None:
    flow = "- {step: s, tool: {kind: http, url: u, spec: {ok_status: [404]}}}"

    assert judge(
        flow, "tasks: {s: {http: {status: 404, body: 1}}}\nexpect: {result: 1}"
    ).passed
    judged = judge(flow, "tasks: {s: {http: 200}}\nexpect: {error: http.status}")
    assert judged.passed, judged.messages


# -- time ------------------------------------------------------------------------


def test_a_delay_takes_virtual_time_and_is_in_the_outcome(judge: Judge) -> None:
    case = """
        tasks: {start.ask: {result: 1, delay: 1500ms}}
        expect:
          duration: 1.5s
          ctx: {seen: {$subset: {meta: {$subset: {duration_ms: 1500}}}}}
    """

    judged = judge(ONE, case)

    assert judged.passed, judged.messages


@pytest.mark.spec("S-35")
@pytest.mark.parametrize(
    ("timeout", "seconds"),
    [("2s", 2), ("{read: 3, total: 9}", 3), ("{total: 4}", 4), ("{connect: 1}", 60)],
)
def test_a_call_that_takes_longer_than_its_timeout_ends_there(
    judge: Judge, timeout: str, seconds: int
) -> None:
    flow = f"- {{step: s, tool: {{kind: http, url: u, spec: {{timeout: {timeout}}}}}}}"
    case = f"""
        tasks: {{s: {{result: 1, delay: 1h}}}}
        expect: {{error: {{kind: timeout, retryable: true}}, duration: {seconds}}}
    """

    judged = judge(flow, case)

    assert judged.passed, judged.messages


def test_a_timeout_that_is_none_is_an_outcome(judge: Judge) -> None:
    flow = (
        "- {step: s, tool: {kind: http, url: u, spec: {timeout: '{{ workload.t }}'}}}"
    )
    case = (
        "workload: {t: soon}\ntasks: {s: {result: 1}}\nexpect: {error: tool.contract}"
    )

    assert judge(flow, case).passed


@pytest.mark.spec("S-35", "S-36")
@pytest.mark.parametrize(
    ("flow", "expect"),
    [
        pytest.param(
            "- {step: s, spec: {deadline: 3s}, tool: {kind: http, url: u}}",
            "{error: {kind: timeout, step: s}, duration: 3}",
            id="of the step",
        ),
        pytest.param(
            "executor: {spec: {deadline: 4s}}\n"
            "workflow: [{step: s, tool: {kind: http, url: u}}]",
            "{status: cancelled, error: timeout, duration: 4, events: [{name: "
            "task.done, payload: {$subset: {outcome: {error: {kind: cancelled}}}}}]}",
            id="of the execution, which stops the call",
        ),
    ],
)
def test_a_deadline_comes_before_a_slow_answer(
    judge: Judge, flow: str, expect: str
) -> None:
    judged = judge(flow, f"tasks: {{s: {{result: 1, delay: 20s}}}}\nexpect: {expect}")

    assert judged.passed, judged.messages


def test_an_execution_begins_at_its_start_time(judge: Judge) -> None:
    flow = """
        - step: s
          tool:
            - w: {kind: wait, until: "2026-03-01T12:00:00Z"}
            - n: {kind: noop, result: "{{ execution.started_at }}"}
    """
    case = """
        starts_at: 2026-03-01T11:00:00Z
        expect: {result: "2026-03-01T11:00:00.000000Z", duration: 1h}
    """

    judged = judge(flow, case)

    assert judged.passed, judged.messages
