"""The other keys of a step: timeouts, failures, arguments, variables, loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from noetl import load

Execute = Callable[..., Any]
Loading = Callable[..., Any]


@pytest.mark.spec("LEG-STEP-01", "S-66", "C-30", "LEG-STEP-02")
def test_a_timeout_bounds_the_step(execute: Execute, loaded: Loading) -> None:
    text = """
    - step: work
      spec: {timeout: 300s, on_error: fail}
      tool: {kind: http, url: "https://x.example", spec: {timeout: 30s}}
      next: [{step: plain}]
    - step: plain
      spec: {timeout: 20s}
      tool: {kind: http, url: "https://x.example"}
    """
    playbook = loaded(text).playbook
    work, plain = playbook.workflow
    assert (work.deadline, work.tasks[0].spec["timeout"]) == (300.0, "30s")
    assert (plain.deadline, plain.tasks[0].spec["timeout"]) == (None, "20s")


@pytest.mark.spec("LEG-STEP-04", "S-01")
def test_async_is_accepted_and_has_no_effect(loaded: Loading) -> None:
    found = loaded(
        """
        - step: work
          retry: {max_attempts: 2}
          tool: {kind: noop, spec: {async: true}}
        """
    )
    assert "async" not in found.playbook.workflow[0].tasks[0].spec
    assert {d.code for d in found.diagnostics} == {"S-01"}


@pytest.mark.spec("LEG-STEP-03")
def test_a_failure_that_is_ignored(execute: Execute) -> None:
    execution = execute(
        """
        - step: work
          spec: {on_error: ignore}
          tool: {kind: http, url: "https://x.example"}
          next: [{step: end}]
        - step: end
          tool: {kind: noop}
        """,
        {"call": ["!connection"]},
    )
    assert execution.state.status == "completed"
    assert execution.steps == ["work", "end"]


@pytest.mark.spec("LEG-STEP-08", "LEG-CASE-21")
def test_python_code_finds_the_names_it_expects(execute: Execute) -> None:
    execution = execute(
        """
        - step: work
          tool:
            kind: python
            code: |
              import json
              names = [part for part in parts]
              result = {"id": order_id, "data": earlier, "n": len(names), "x": given}
            args: {given: "{{ order_id + 1 }}"}
          case: []
        ---
        workload: {order_id: 3, parts: [], earlier: 1, unused: 2}
        """
    )
    [call] = execution.calls
    assert call.inputs["args"] == {
        "given": 4,
        "order_id": 3,
        "parts": [],
        "earlier": 1,
    }


@pytest.mark.spec("LEG-STEP-08", "C-37")
@pytest.mark.parametrize(
    "tool",
    [
        pytest.param('kind: shell, command: "echo {{ order_id }}"', id="shell"),
        pytest.param(
            'kind: postgres, dsn: "x", command: "SELECT {{ order_id }}"', id="postgres"
        ),
    ],
)
def test_commands(execute: Execute, tool: str) -> None:
    execution = execute(
        f"""
        - step: work
          tool: {{{tool}}}
          case: []
        ---
        workload: {{order_id: 3}}
        """
    )
    assert "3" in execution.calls[0].inputs["command"]


@pytest.mark.spec("LEG-STEP-09")
def test_args_reach_the_templates_of_a_tool_and_the_log(execute: Execute) -> None:
    execution = execute(
        """
        - step: work
          args: {id: "{{ order_id }}", text: "no. {{ order_id }}!", flag: true}
          tool: {kind: http, url: "https://x.example/{{ id }}?{{ text }}&{{ flag }}"}
          case: []
        ---
        workload: {order_id: 3}
        """
    )
    assert execution.calls[-1].inputs["url"] == "https://x.example/3?no. 3!&True"
    note = execution.done("call__begin")["outcome"]["noop"]["note"]
    assert note["args"] == {"id": 3, "text": "no. 3!", "flag": True}


@pytest.mark.spec("LEG-STEP-10", "C-01", "C-34")
def test_vars(execute: Execute) -> None:
    execution = execute(
        """
        - step: work
          tool: {kind: noop, result: {id: 3}}
          vars: {id: "{{ result.id }}", twice: "{{ result.id * 2 }}"}
          next: [{step: end}]
        - step: end
          tool: {kind: noop, result: "{{ vars.id }} {{ vars.twice }} {{ vars.first }}"}
        ---
        vars: {first: 1, id: 0}
        """
    )
    assert execution.state.ctx["vars"] == {"id": 3, "twice": 6}
    assert execution.state.result == "3 6 1"


@pytest.mark.spec("LEG-CASE-18", "LEG-STEP-01")
def test_a_sink_runs_after_its_tool(execute: Execute) -> None:
    execution = execute(
        """
        - step: work
          tool: {kind: noop, result: 5}
          sink: {tool: {kind: noop, result: "stored {{ work.data }}"}}
        """
    )
    assert execution.ran == ["call", "sink"]
    assert execution.state.result == "stored 5"


@pytest.mark.spec("C-01", "VAL-08")
@pytest.mark.parametrize(
    ("go", "status"), [(True, "step.done"), (False, "step.skipped")]
)
def test_a_condition_on_a_step_is_its_gate(
    execute: Execute, go: bool, status: str
) -> None:
    execution = execute(
        f"""
        - step: work
          when: "{{{{ go }}}}"
          tool: {{kind: noop}}
        ---
        workload: {{go: {str(go).lower()}}}
        """
    )
    assert execution.named("step.done", "step.skipped")[0].name == status


@pytest.mark.spec("LEG-STEP-05")
def test_a_credential_may_be_a_template(loaded: Loading) -> None:
    found = loaded(
        """
        - step: work
          tool: {kind: postgres, auth: "{{ credential_ref }}", command: SELECT 1}
          case: []
        ---
        workload: {credential_ref: pg}
        """
    )
    assert found.valid


@pytest.mark.spec("S-66")
def test_canonical_steps_keep_their_meaning(loaded: Loading) -> None:
    text = """
    - step: start
      tool:
        - fetch:
            kind: http
            url: "https://x.example/{{ result }}"
            spec:
              retry: 3
              policy: {rules: [{else: {then: {do: continue}}}]}
      next: {spec: {mode: exclusive}, arcs: [{step: end, when: "{{ event.data }}"}]}
    - step: end
      tool: {kind: noop}
    ---
    workload: {result: 1}
    """
    one, other = loaded(text), loaded(text, legacy=False)
    from noetl.dsl.canonical import canonical

    assert canonical(one.playbook) == canonical(other.playbook)


@pytest.mark.spec("VAL-22", "LEG-CASE-01", "LEG-POLL-01", "LEG-RETRY-06")
@pytest.mark.parametrize(
    ("step", "code", "said"),
    [
        pytest.param("case: 5", "LEG-CASE-01", "must be a list", id="no list"),
        pytest.param("case: [5]", "LEG-CASE-01", "must be a mapping", id="no branch"),
        pytest.param("case: [{then: []}]", "LEG-CASE-01", "'when'", id="no condition"),
        pytest.param(
            "case: [{when: '{{ x', then: []}]", "VAL-22", "template", id="broken"
        ),
        pytest.param(
            "case: [{when: true, then: [{a: {kin: noop}}]}]",
            "LEG-CASE-17",
            "tool",
            id="no tool",
        ),
        pytest.param(
            "case: [{when: true, then: [{next: {too: x}}]}]",
            "S-50",
            "unknown key 'too'",
            id="a typing error in next",
        ),
        pytest.param(
            "case: [{when: true, then: [{next: {to: [{step: nowhere}]}}]}]",
            "VAL-02",
            "nowhere",
            id="an unknown target",
        ),
        pytest.param(
            "case: [{else: []}, {else: []}]", "LEG-CASE-07", "second", id="two else"
        ),
        pytest.param("retry: {max_attempts: 0}", "LEG-RETRY-06", "from 1", id="zero"),
        pytest.param("retry: {attempts: 3}", "S-50", "attempts", id="another name"),
        pytest.param("poll: {interval: 5s}", "LEG-POLL-01", "until", id="no until"),
        pytest.param(
            "poll: {until: true, interval: soon}", "C-26", "soon", id="no duration"
        ),
        pytest.param(
            "spec: {case_mode: both}", "LEG-CASE-02", "exclusive", id="no such mode"
        ),
    ],
)
def test_mistakes(loaded: Loading, step: str, code: str, said: str) -> None:
    found = loaded(f"- step: start\n  tool: {{kind: noop}}\n  {step}\n")
    errors = [each for each in found.diagnostics if each.severity == "error"]
    [error] = [each for each in errors if each.code == code]
    assert said in error.message
    assert error.line >= 5


@pytest.mark.spec("VAL-24", "C-01")
@pytest.mark.parametrize(
    "odd", ["5", "x", "[]", "[[]]", "{}", "{a: {}}", "null", "[{}]"]
)
@pytest.mark.parametrize(
    "key",
    "case retry poll sink vars args spec tool loop next when".split(),  # noqa: SIM905
)
def test_odd_values_are_diagnosed_and_never_raised(key: str, odd: str) -> None:
    head = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: t/t}\n"
    base = {"tool": "{kind: noop}", "case": "[{when: true, then: []}]"}
    lines = "".join(f"    {k}: {v}\n" for k, v in {**base, key: odd}.items())
    load(f"{head}workflow:\n  - step: start\n{lines}", extensions=frozenset({"legacy"}))
