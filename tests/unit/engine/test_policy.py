"""Task rules: which one decides, and what follows from it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Run = Callable[..., Any]

TASK = """
- step: start
  tool:
    - work:
        kind: noop
        v: "{{ _attempt }}"
        spec: {policy: {rules: [%s]}}
    - after: {kind: noop}
"""


def rules(*lines: str) -> str:
    return TASK % ", ".join(lines)


OK = "\"{{ outcome.status == 'ok' }}\""
ERROR = "\"{{ outcome.status == 'error' }}\""


@pytest.mark.spec("POL-03", "POL-04", "POL-06", "POL-07", "S-18")
@pytest.mark.parametrize(
    ("lines", "answer", "decided"),
    [
        pytest.param(
            ["{when: true, then: {do: break}}", "{when: true, then: {do: fail}}"],
            1,
            ("break", 0),
            id="the first match wins",
        ),
        pytest.param(
            ["{when: false, then: {do: fail}}", "{when: true, then: {do: break}}"],
            1,
            ("break", 1),
            id="a rule that does not match is passed over",
        ),
        pytest.param(
            ["{else: {then: {do: fail}}}", "{when: true, then: {do: break}}"],
            1,
            ("break", 1),
            id="else is the fallback even if it stands first",
        ),
        pytest.param(
            ["{else: {then: {do: break}}}", f"{{when: {ERROR}, then: {{do: fail}}}}"],
            1,
            ("break", 0),
            id="else decides where nothing matched",
        ),
        pytest.param(
            [f"{{when: {OK}, then: {{do: fail}}}}"],
            "!x",
            ("continue", None),
            id="no match and no else continues, even after an error",
        ),
    ],
)
def test_the_rule_that_decides(
    run: Run, lines: list[str], answer: object, decided: tuple[str, int | None]
) -> None:
    done = run(rules(*lines), script={"work": [answer]}).events("task.done")[0]
    directive = done.payload["directive"]

    assert (directive["do"], directive["rule"]) == decided


@pytest.mark.spec("POL-05")
@pytest.mark.parametrize(
    ("answer", "directive", "status"),
    [
        pytest.param(1, "continue", "completed", id="ok continues"),
        pytest.param("!x", "fail", "failed", id="an error fails"),
    ],
)
def test_without_policy(run: Run, answer: object, directive: str, status: str) -> None:
    flow = "- {step: start, tool: [{work: {kind: noop}}]}"
    execution = run(flow, script={"work": [answer]})

    assert execution.directives == [f"work {directive}"]
    assert execution.state.status == status


@pytest.mark.spec("DIR-05", "DIR-06", "DIR-07", "C-28", "S-14", "S-16", "SCOPE-09")
@pytest.mark.parametrize(
    ("then", "answers", "attempts", "status"),
    [
        pytest.param(
            "do: retry, attempts: 5", ["!x"], [1, 2, 3, 4, 5], "failed", id="five calls"
        ),
        pytest.param("do: retry, attempts: 1", ["!x"], [1], "failed", id="one call"),
        pytest.param(
            "do: retry", ["!x"], [1, 2, 3], "failed", id="three unless it says"
        ),
        pytest.param(
            "do: retry", ["!x", "!y", 7], [1, 2, 3], "completed", id="the third is good"
        ),
    ],
)
def test_attempts_count_every_call(
    run: Run, then: str, answers: list[object], attempts: list[int], status: str
) -> None:
    flow = rules(f"{{when: {ERROR}, then: {{{then}}}}}")
    execution = run(flow, script={"work": answers})

    assert [value for value in execution.seen if value is not None] == attempts
    assert execution.state.status == status


@pytest.mark.spec("DIR-07", "S-11")
def test_exhausted_retries_keep_the_kind_of_the_last_error(run: Run) -> None:
    flow = rules(f"{{when: {ERROR}, then: {{do: retry, attempts: 2}}}}")
    execution = run(flow, script={"work": ["!first", "!last"]})

    assert execution.event("step.failed").payload["error"] == {
        "kind": "last",
        "message": "scripted",
        "retryable": False,
        "task": "work",
        "iteration": None,
        "details": {"attempts": 2},
    }
    assert execution.state.error["step"] == "start"


@pytest.mark.spec("S-16", "S-11", "QNT-02")
def test_retry_on_success_polls_and_exhausts_to_fail(run: Run) -> None:
    flow = rules('{when: "{{ outcome.result < 3 }}", then: {do: retry, attempts: 4}}')
    patient = run(flow, script={"work": [1, 2, 3]})
    given_up = run(flow, script={"work": [1]})

    assert patient.state.status == "completed"
    assert given_up.event("step.failed").payload["error"]["kind"] == "policy.fail"
    assert given_up.event("step.failed").payload["error"]["details"] == {"attempts": 4}


@pytest.mark.spec("DIR-08", "POL-08", "S-16", "C-26")
@pytest.mark.parametrize(
    ("then", "delays"),
    [
        pytest.param("", [0, 0, 0], id="no delay unless it says"),
        pytest.param("delay: 2", [2, 2, 2], id="constant without backoff"),
        pytest.param("delay: 2, backoff: none", [2, 2, 2], id="none is constant"),
        pytest.param("delay: 2, backoff: linear", [2, 4, 6], id="linear"),
        pytest.param("delay: 2, backoff: exponential", [2, 4, 8], id="exponential"),
        pytest.param(
            'delay: "{{ workload.pause }}", backoff: linear',
            [0.5, 1.0, 1.5],
            id="a template that yields a duration",
        ),
        pytest.param('delay: "{{ _attempt }}"', [1, 2, 3], id="a template of its own"),
    ],
)
def test_waits_before_each_rerun(run: Run, then: str, delays: list[float]) -> None:
    more = f", {then}" if then else ""
    flow = rules(f"{{when: {ERROR}, then: {{do: retry, attempts: 4{more}}}}}")
    execution = run(flow, root="workload: {pause: 500ms}\n", script={"work": ["!x"]})
    recorded = [event.payload["directive"] for event in execution.events("task.done")]

    assert [each["delay"] for each in recorded if each["do"] == "retry"] == delays
    assert execution.clock == sum(delays)


@pytest.mark.spec("DIR-08", "S-32")
def test_a_delay_that_is_not_a_duration_fails_the_pipeline(run: Run) -> None:
    delay = "delay: \"{{ 'soon' }}\""
    flow = rules(f"{{else: {{then: {{do: retry, attempts: 3, {delay}}}}}}}")
    execution = run(flow, script={"work": ["!x"]})
    error = execution.state.error

    assert error["kind"] == "x"
    assert error["details"]["policy"]["message"].startswith("delay: ")


@pytest.mark.spec("DIR-11", "DIR-12", "S-11")
@pytest.mark.parametrize(
    ("then", "answer", "end", "payload"),
    [
        pytest.param("break", 5, "step.done", {"result": 5}, id="break succeeds"),
        pytest.param(
            "break", "!x", "step.done", {"result": None}, id="break after an error"
        ),
        pytest.param(
            "fail",
            5,
            "step.failed",
            {
                "error": {
                    "kind": "policy.fail",
                    "message": "rule 1 of task 'work' has 'do: fail'",
                    "retryable": False,
                    "details": {},
                    "task": "work",
                    "iteration": None,
                }
            },
            id="fail on an ok outcome",
        ),
    ],
)
def test_ends_the_pipeline(
    run: Run, then: str, answer: object, end: str, payload: dict[str, object]
) -> None:
    execution = run(
        rules(f"{{else: {{then: {{do: {then}}}}}}}"), script={"work": [answer]}
    )

    assert execution.labels == ["work"]
    assert execution.event(end).payload == payload


SKIP = "then: {do: skip, set_ctx: {skipped: true}}"


@pytest.mark.spec("C-18", "DIR-03", "DIR-04", "S-13")
@pytest.mark.parametrize(
    ("lines", "called", "directive"),
    [
        pytest.param(
            [f'{{when: "{{{{ workload.off }}}}", {SKIP}}}'],
            False,
            "skip",
            id="a guard that needs no outcome keeps the body from running",
        ),
        pytest.param(
            [
                f"{{when: {ERROR}, then: {{do: fail}}}}",
                f'{{when: "{{{{ workload.off }}}}", {SKIP}}}',
            ],
            False,
            "skip",
            id="rules that read the outcome are passed over",
        ),
        pytest.param(
            [
                '{when: "{{ workload.off }}", then: {do: continue}}',
                f"{{when: true, {SKIP}}}",
            ],
            True,
            "continue",
            id="the first match is not skip: the body runs",
        ),
        pytest.param(
            [f"{{when: {OK}, {SKIP}}}"],
            True,
            "skip",
            id="matched after the call, its result is dropped",
        ),
        pytest.param(
            ['{when: "{{ ctx.go }}", then: {do: continue}}', f"{{else: {{{SKIP}}}}}"],
            False,
            "skip",
            id="else skips before if no rule needs the outcome",
        ),
        pytest.param(
            [f"{{when: {ERROR}, then: {{do: retry}}}}", f"{{else: {{{SKIP}}}}}"],
            True,
            "skip",
            id="else waits for the call if a rule reads the outcome",
        ),
    ],
)
def test_skip(run: Run, lines: list[str], called: bool, directive: str) -> None:
    flow = f"""
    - step: start
      tool:
        - first: {{kind: noop}}
        - work: {{kind: noop, spec: {{policy: {{rules: [{", ".join(lines)}]}}}}}}
        - last: {{kind: noop, v: "{{{{ _prev }}}}"}}
    """
    execution = run(
        flow, "workload: {off: true}\n", {"first": [1], "work": [2], "last": [3]}
    )
    done = execution.events("task.done")[1]

    assert ("work" in execution.labels) is called
    assert done.payload["directive"]["do"] == directive
    if directive == "skip":
        assert (done.status, execution.seen[-1]) == ("skipped", 1)
        assert execution.state.ctx == {"skipped": True}
    assert execution.names.count("task.started") == 3


@pytest.mark.spec("S-11", "C-18")
def test_a_pipeline_of_skipped_tasks_has_the_last_result_before_them(run: Run) -> None:
    flow = """
    - step: start
      tool:
        - work: {kind: noop}
        - idle: {kind: noop, spec: {policy: {rules: [{when: true, then: {do: skip}}]}}}
    """
    execution = run(flow, script={"work": [4]})

    assert execution.event("step.done").payload == {"result": 4}


@pytest.mark.spec("POL-13", "TPL-05", "TPL-06", "SCOPE-08")
def test_rules_see_the_outcome_and_the_locals_of_the_pipeline(run: Run) -> None:
    flow = """
    - step: start
      tool:
        - before: {kind: noop}
        - work:
            kind: noop
            spec:
              policy:
                rules:
                  - else:
                      then:
                        do: continue
                        set_ctx:
                          prev: "{{ _prev }}"
                          task: "{{ _task }}"
                          attempt: "{{ _attempt }}"
                          result: "{{ outcome.result }}"
                          size: "{{ workload.size }}"
    """
    execution = run(flow, "workload: {size: 3}\n", {"before": [1], "work": [2]})

    assert execution.state.ctx == {
        "prev": 1,
        "task": "work",
        "attempt": 1,
        "result": 2,
        "size": 3,
    }


BROKEN = '"{{ 1 // 0 }}"'


@pytest.mark.spec("S-32")
@pytest.mark.parametrize(
    "line",
    [
        pytest.param(f"{{when: {BROKEN}, then: {{do: continue}}}}", id="when"),
        pytest.param(f"{{when: {BROKEN}, then: {{do: skip}}}}", id="when before"),
        pytest.param(
            f"{{else: {{then: {{do: continue, set_ctx: {{a: {BROKEN}}}}}}}}}",
            id="set_ctx",
        ),
        pytest.param(f"{{else: {{then: {{do: retry, delay: {BROKEN}}}}}}}", id="delay"),
    ],
)
def test_a_broken_template_in_a_rule_fails_the_pipeline(run: Run, line: str) -> None:
    handler = (
        "{when: \"{{ outcome.error.kind == 'template.error' }}\", then: {do: break}}"
    )
    execution = run(rules(handler, line))

    assert execution.directives == ["work fail"]
    assert execution.state.error["kind"] == "template.error"
    assert execution.state.error["task"] == "work"


@pytest.mark.spec("S-32")
def test_a_broken_rule_does_not_hide_the_error_of_the_call(run: Run) -> None:
    line = f"{{else: {{then: {{do: continue, set_ctx: {{a: {BROKEN}}}}}}}}}"
    execution = run(rules(line), script={"work": "!http.server"})

    failed = execution.state.error
    assert failed["kind"] == "http.server"
    assert failed["message"].startswith("scripted; then a rule of its policy failed: ")
    assert failed["details"]["policy"]["kind"] == "template.error"


@pytest.mark.spec("C-18", "S-32")
def test_a_broken_guard_before_a_skip_keeps_the_body_from_running(run: Run) -> None:
    execution = run(rules(f"{{when: {BROKEN}, then: {{do: skip}}}}"))

    assert execution.calls == []
    assert execution.state.status == "failed"


@pytest.mark.spec("POL-03")
def test_rules_without_skip_are_not_asked_before_the_call(run: Run) -> None:
    late = f"{{when: {BROKEN}, then: {{do: fail}}}}"
    execution = run(rules(f"{{when: {OK}, then: {{do: continue}}}}", late))

    assert execution.state.status == "completed"


@pytest.mark.spec("S-31")
@pytest.mark.parametrize(
    ("value", "kind"),
    [
        pytest.param("ctx.a.b", "template.undefined", id="an undefined value"),
        pytest.param("1 // 0", "template.error", id="any other error"),
    ],
)
def test_an_input_that_cannot_be_rendered_is_an_outcome(
    run: Run, value: str, kind: str
) -> None:
    flow = f"""
    - step: start
      tool:
        - work:
            kind: noop
            v: "{{{{ {value} }}}}"
            spec:
              policy:
                rules:
                  - when: "{{{{ outcome.error.kind == '{kind}' }}}}"
                    then:
                      do: break
                      set_ctx: {{said: "{{{{ outcome.error.message }}}}"}}
    """
    execution = run(flow)

    assert execution.calls == []
    assert execution.state.status == "completed"
    assert not execution.events("task.done")[0].payload["outcome"]["error"]["retryable"]
    if kind == "template.undefined":
        assert "ctx.a" in execution.state.ctx["said"]
