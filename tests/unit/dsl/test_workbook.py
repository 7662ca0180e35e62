"""Workbook tasks: their fields laid over the template's."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from noetl import Playbook
from noetl.dsl.model import Task

Accept = Callable[..., Playbook]
Say = Callable[..., list[tuple[str, str, int, int]]]

WORKBOOK = """
workbook:
  call:
    kind: http
    method: POST
    url: https://example.com/template
    headers: {accept: text/html, x-template: "1"}
    params: {nested: {from: template, kept: true}}
    spec:
      timeout: {connect: 1, read: 2}
      policy:
        rules:
          - when: "{{ outcome.status == 'error' }}"
            then: {do: retry, attempts: 7}
          - else: {then: {do: continue}}
"""


def task_of(accept: Accept, fields: str, root: str = WORKBOOK) -> Task:
    steps = f"- step: start\n  tool: [{{go: {{kind: workbook, name: call{fields}}}}}]\n"
    [task] = accept(steps, root).workflow[0].tasks
    return task


def inputs(task: Task) -> dict[str, object]:
    return {key: value.render({}) for key, value in task.inputs.items()}


@pytest.mark.spec("S-53", "ROOT-10", "PIPE-18")
def test_the_template_alone(accept: Accept) -> None:
    task = task_of(accept, "")
    assert task.kind == "http"
    assert inputs(task) == {
        "method": "POST",
        "url": "https://example.com/template",
        "headers": {"accept": "text/html", "x-template": "1"},
        "params": {"nested": {"from": "template", "kept": True}},
    }


@pytest.mark.spec("S-53")
@pytest.mark.parametrize(
    ("fields", "key", "value"),
    [
        pytest.param(
            ", url: https://example.com/own",
            "url",
            "https://example.com/own",
            id="a scalar replaces",
        ),
        pytest.param(
            ", headers: {accept: text/csv}",
            "headers",
            {"accept": "text/csv", "x-template": "1"},
            id="a mapping merges",
        ),
        pytest.param(
            ", params: {nested: {from: task}, more: 1}",
            "params",
            {"nested": {"from": "task", "kept": True}, "more": 1},
            id="deeply",
        ),
        pytest.param(', headers: "{{ {} }}"', "headers", {}, id="a template replaces"),
        pytest.param(", auth: {type: bearer}", "auth", {"type": "bearer"}, id="more"),
    ],
)
def test_own_fields_lie_over_the_template(
    accept: Accept, fields: str, key: str, value: object
) -> None:
    expected = {**inputs(task_of(accept, "")), key: value}
    assert inputs(task_of(accept, fields)) == expected


@pytest.mark.spec("S-53", "SPEC-04")
def test_specs_merge_too(accept: Accept) -> None:
    task = task_of(accept, ", spec: {timeout: {read: 9}, pool: p}")
    assert task.spec["timeout"] == {"connect": 1, "read": 9, "total": 300}
    assert task.spec["pool"] == "p"


@pytest.mark.spec("S-53")
def test_the_policy_is_the_templates_unless_the_task_has_one(accept: Accept) -> None:
    rules = task_of(accept, "").rules
    assert rules is not None
    assert [(rule.then.do, rule.then.attempts) for rule in rules] == [
        ("retry", 7),
        ("continue", 3),
    ]
    own = task_of(accept, ", spec: {policy: {rules: [{else: {then: {do: break}}}]}}")
    assert own.rules is not None
    assert [rule.then.do for rule in own.rules] == ["break"]


@pytest.mark.spec("S-53")
def test_literals_of_the_template_stay_literal(accept: Accept) -> None:
    root = (
        "workbook: {call: {kind: python, code: 'result = x', "
        'args: {x: "{{ 1 + 1 }}"}}}\n'
    )
    task = task_of(accept, ", args: {y: 3}", root)
    assert task.literals == {"code": "result = x"}
    assert inputs(task) == {"args": {"x": 2, "y": 3}}


@pytest.mark.spec("S-53", "S-69")
def test_a_template_of_kind_secrets_keeps_its_name(accept: Accept) -> None:
    task = task_of(accept, "", "workbook: {call: {kind: secrets, name: db}}\n")
    assert inputs(task) == {"name": "db"}


@pytest.mark.spec("S-53", "VAL-04", "S-50", "S-67")
@pytest.mark.parametrize(
    ("workbook", "task", "code", "at"),
    [
        pytest.param(
            "{call: {kind: noop}}", "{kind: workbook}", "S-53", "{kind", id="no name"
        ),
        pytest.param(
            "{call: {kind: noop}}",
            "{kind: workbook, name: cal}",
            "S-53",
            "cal}",
            id="a name that is no template's",
        ),
        pytest.param(
            "{call: 5}", "{kind: workbook, name: call}", "S-53", "5}", id="a number"
        ),
        pytest.param(
            "{call: {kind: pithon}}",
            "{kind: workbook, name: call}",
            "VAL-04",
            "pithon",
            id="an unknown kind",
        ),
        pytest.param(
            "{call: {kind: [noop]}}",
            "{kind: workbook, name: call}",
            "VAL-04",
            "[noop]",
            id="a list as kind",
        ),
        pytest.param(
            "{call: {url: x}}",
            "{kind: workbook, name: call}",
            "VAL-04",
            "{url",
            id="a template without a kind",
        ),
        pytest.param(
            "{call: {kind: workbook, name: x}}",
            "{kind: workbook, name: call}",
            "S-53",
            "workbook, name: x",
            id="a template of kind workbook",
        ),
        pytest.param(
            "{call: {kind: http, url: x}}",
            "{kind: workbook, name: call, ulr: y}",
            "S-50",
            "ulr",
            id="an input that the template's kind lacks",
        ),
        pytest.param(
            "{call: {kind: http}}",
            "{kind: workbook, name: call}",
            "S-50",
            "{kind: workbook",
            id="an input that both forgot",
        ),
        pytest.param(
            "{call: {kind: http, url: x, auth: nobody}}",
            "{kind: workbook, name: call}",
            "S-67",
            "nobody",
            id="an undeclared credential in the template",
        ),
    ],
)
def test_what_is_wrong_with_a_workbook_task(
    document: Callable[..., str],
    say: Say,
    workbook: str,
    task: str,
    code: str,
    at: str,
) -> None:
    text = document(f"- step: start\n  tool: {task}\n", f"workbook: {workbook}\n")
    errors = [found for found in say(text) if found[1] == "error"]
    assert errors[0][0] == code
    line, column = errors[0][2:]
    assert text.splitlines()[line - 1][column - 1 :].startswith(at)


@pytest.mark.spec("VAL-04", "S-53")
def test_an_unused_broken_template_is_reported(
    document: Callable[..., str], say: Say
) -> None:
    text = document(
        "- step: start\n  tool: {kind: noop}\n", "workbook: {a: {kind: nope}}\n"
    )
    assert say(text) == [("VAL-04", "error", 4, 22)]
