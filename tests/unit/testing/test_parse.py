"""Mistakes in a test file: each has its place, a sentence and a hint."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from noetl.dsl.diagnostics import Diagnostic
from noetl.testing.parse import parse_suite

Complaints = Callable[..., list[Diagnostic]]

FLOW = """
- step: start
  tool:
    - ask: {kind: http, url: u}
    - say: {kind: noop}
  next: {arcs: [{step: each, when: "{{ event.name == 'step.done' }}"}]}
- step: each
  loop: {in: [1], iterator: x}
  tool: {kind: python, code: "result = 1"}
"""
GOOD = """
tasks: {start.ask: {result: 1}, each: {result: 1}}
cases:
  - name: a
    expect: {path: [start, each], calls: {each: 1}, iterations: {each: {total: 1}}}
"""


def case(body: str) -> str:
    return f"cases:\n  - name: a\n    {body}\n"


def answer(body: str) -> str:
    return f"tasks:\n  start.ask: {body}\ncases: [{{name: a, expect: {{}}}}]\n"


MISTAKES: list[Any] = [
    ("", "the test file is empty", "start with: cases:"),
    ("[1]", "a test file is a mapping, found a list", "start with: cases:"),
    ("cases: []", "'cases' is empty: there is nothing to test", "add - name: …"),
    ("workload: {}", "a test file needs 'cases'", "add cases: … (The tests.)"),
    ("cases: [1]", "a case must be a mapping, found the number 1", "write - name: …"),
    ("cases: [{name: a, expect: {}}, {name: a, expect: {}}]", "a second case 'a'", 1),
    ("cases: [{expect: {}}]", "a case needs 'name'", None),
    ("cases: [{name: a}]", "a case needs 'expect'", None),
    (
        case("expect: {statsu: failed}"),
        "unknown key 'statsu' in expectations",
        "status",
    ),
    (case("expct: {}\n    expect: {}"), "unknown key 'expct' in a case", "expect"),
    (case("expect: {status: done}"), "'status' must be one of", None),
    (case("expect: {duration: soon}"), "'soon' is not a duration", "write seconds"),
    (case("expect: {duration: {$when: 1}}"), "'$when' does not apply to", "$at_least"),
    (case("expect: {never: 1}"), "'never' must be a list, found the number 1", None),
    (case("expect: {calls: {each: x}}"), "calls of a task are a number", None),
    (case("expect: {calls: {each: {cuont: 1}}}"), "unknown key 'cuont'", "count"),
    (case("expect: {calls: {each: {nth: [{call: 1}]}}}"), "needs 'inputs'", None),
    (case("expect: {calls: {each: {nth: [1]}}}"), "'nth' of a step must be", None),
    (case("expect: {iterations: {each: 1}}"), "'iterations' of a step must be", None),
    (case("expect: {iterations: {each: {toatl: 1}}}"), "unknown key 'toatl'", "total"),
    (case("expect: {events: [{nmae: x}]}"), "unknown key 'nmae'", "name"),
    (
        case("expect: {events: [1]}"),
        "an event is a name, or {name: …}, found the",
        None,
    ),
    (case("expect: {error: {knid: x}}"), "unknown key 'knid'", "kind"),
    (
        case("expect: {result: {$contians: 1}}"),
        "unknown matcher '$contians'",
        "$contai",
    ),
    (case("expect: {result: {$any: true, a: 1}}"), "'a' beside a matcher", "$subset"),
    (case("expect: {result: {a: [{$type: int}]}}"), "'$type' must be one of", None),
    (case("expect: {result: {$regex: '['}}"), "not a regular expression", None),
    (case('expect: {result: {$when: "{{ 1 + }}"}}'), "unexpected", None),
    (case("expect: {result: {$subset: [1]}}"), "'$subset' must be a mapping", None),
    (case("schedules: 0\n    expect: {}"), "'schedules' must be from 1", None),
    (case("starts_at: noon\n    expect: {}"), "'noon' is not a time", "2026-01-01"),
    (case("signals: [{singal: x}]\n    expect: {}"), "unknown key 'singal'", "signal"),
    (case("signals: [x]\n    expect: {}"), "a signal must be a mapping", None),
    (case("signals: [{signal: x, at: y}]\n    expect: {}"), "'y' is not a dur", None),
    (case("playbooks: {c: 1}\n    expect: {}"), "a child playbook must be a m", None),
    (answer("1"), "an answer must be a mapping, found the number 1", "write result"),
    (answer("{}"), "the answer has no outcome", "add one of: result"),
    (answer("{attempt: 1}"), "the answer has no outcome", None),
    (answer("{result: 1, error: x}"), "'result' and 'error': a call has one", None),
    (answer("{reslt: 1}"), "unknown key 'reslt' in an answer", "result"),
    (answer("{error: {kimd: x}}"), "unknown key 'kimd' in an error", "kind"),
    (answer("{http: {body: 1}}"), "an HTTP answer needs 'status'", None),
    (answer("{http: 99}"), "'http' must be from 100 to 599, found 99", None),
    (answer("{http: {status: 1000}}"), "'status' must be from 100 to 599", None),
    (answer("{dies: now}"), "'dies' must be one of before_call, before_report", None),
    (answer("{real: false}"), "'real' is true, or it is left out", None),
    (answer("{real: true, delay: 1}"), "'delay' beside 'real'", None),
    (answer("{answers: []}"), "'answers' is empty", None),
    (answer("{answers: [1]}"), "an outcome must be a mapping", None),
    (answer("{answers: [{call: 1, result: 1}]}"), "unknown key 'call' in an out", None),
    (answer("{answers: [{result: 1}], delay: 1}"), "'delay' beside 'answers'", None),
    (answer("{delay: long, result: 1}"), "'long' is not a duration", None),
    (answer("{attempt: x, result: 1}"), "'attempt' must be a whole number", None),
    (answer("{attempt: [x], result: 1}"), "a whole number from 1 on is needed", None),
    (answer("{call: 0, result: 1}"), "from 1 on is needed, found the number 0", None),
    (answer("[{result: 1}, {result: 2}]"), "never used: the answer before it", "answ"),
    (answer('{result: "{{ input.x }}"}'), "'input' is not available in an", "inputs"),
    (answer('{when: "{{ itr.x }}", result: 1}'), "'itr' is not available", "iter"),
    (answer("{when: iter.x, result: 1}"), "'when' needs template delimiters", None),
    (answer('{result: "{{ 1 + }}"}'), "unexpected", None),
    ("cases: [{name: a, name: b, expect: {}}]", "'name'", None),
]


@pytest.mark.parametrize(
    ("text", "message", "hint"), MISTAKES, ids=[each[1] for each in MISTAKES]
)
def test_a_mistake_is_said(
    complaints: Complaints, text: str, message: str, hint: object
) -> None:
    found = complaints(text)

    assert [each for each in found if message in each.message], found
    assert all(each.severity == "error" for each in found)
    if hint is not None:
        assert any(str(hint) in (each.hint or "") for each in found), found


NAMES: list[Any] = [
    ("tasks: {start.aks: {result: 1}}", "step 'start' has no task 'aks'", "ask"),
    ("tasks: {strat.ask: {result: 1}}", "has no task 'strat.ask'", "start.ask"),
    ("tasks: {start: {result: 1}}", "has 2 tasks: which one is meant?", "start.say"),
    ("tasks: {each: {http: 404}}", "'task_1' is of kind python, not http", "result"),
    ("tasks: {start.ask: {real: true}}", "kind http cannot run in a test", "noop"),
    (
        "playbooks: {c: {tasks: {x: {result: 1}}}}",
        "unknown playbook path 'c'",
        None,
    ),
    ("expect: {calls: {echa: 1}}", "the playbook has no task 'echa'", "each"),
    ("expect: {never: [stort]}", "no step and no task 'stort'", "start"),
    ("expect: {path: [start, eahc]}", "the playbook has no step 'eahc'", "each"),
    ("expect: {path: {$unordered: [strt]}}", "no step 'strt'", "start"),
    ("expect: {iterations: {start: {total: 1}}}", "step 'start' has no loop", None),
    ("expect: {iterations: {eech: {total: 1}}}", "no step 'eech'", "each"),
    ("expect: {events: [task.don]}", "unknown event 'task.don'", "task.done"),
    ("expect: {events: [{name: lop.done}]}", "unknown event 'lop.done'", "loop.done"),
]


@pytest.mark.parametrize(
    ("body", "message", "hint"), NAMES, ids=[each[1] for each in NAMES]
)
def test_a_name_that_the_playbook_does_not_have_is_said(
    complaints: Complaints, body: str, message: str, hint: object
) -> None:
    text = case(body if "expect" in body else f"{body}\n    expect: {{}}")
    (found,) = complaints(text, FLOW)

    assert message in found.message
    assert found.line in (3, 4)
    if hint is not None:
        assert str(hint) in (found.hint or "")


def test_a_good_file_has_no_complaints(complaints: Complaints) -> None:
    assert complaints(GOOD, FLOW) == []


def test_a_mistake_in_the_files_answers_is_said_once(complaints: Complaints) -> None:
    cases = "[{name: a, expect: {}}, {name: b, expect: {}}]"
    text = f"tasks: {{strat.ask: {{result: 1}}}}\ncases: {cases}"

    assert len(complaints(text, FLOW)) == 1


def test_all_mistakes_are_said_in_one_pass(complaints: Complaints) -> None:
    text = "worklod: {}\ncases: [{nam: a, expect: {pth: [], result: {$x: 1}}}]"
    found = complaints(text)

    assert [each.rule for each in found] == [
        "unknown-key",
        "missing-key",
        "unknown-key",
        "unknown-key",
        "matcher",
    ]


@pytest.mark.parametrize("text", ["a: [", "\x00", "a: &x [*x]", "{{ x }}: 1", b"\xff"])
def test_no_text_makes_it_raise(text: str | bytes) -> None:
    suite, found = parse_suite(text)

    assert suite is None
    assert found


def test_a_secret_is_not_shown(complaints: Complaints) -> None:
    token = "ghp_" + "a1B2" * 9
    (found,) = complaints(case(f"expect: {{duration: {token}}}"))

    assert token[:10] not in found.message
