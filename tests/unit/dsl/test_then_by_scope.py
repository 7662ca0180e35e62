"""``then`` and ``else`` have one shape per scope, and no other scope's."""

from __future__ import annotations

import pytest

from noetl import load

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: tests/t}\n"
TASKS = "[{a: {tool: {kind: noop}}}]"

FLOW = HEAD + "workflow: [{step: s, "
RULE = FLOW + "tool: {kind: noop, spec: {policy: {rules: [RULE]}}}}]"
GATE = FLOW + "spec: {policy: {admit: {rules: [RULE]}}}, tool: {kind: noop}}]"
CASE = FLOW + "tool: {kind: noop}, case: [RULE]}]"


def errors(text: str, *extensions: str) -> list[str]:
    found = load(text, extensions=frozenset(extensions)).diagnostics
    return [each.code for each in found if each.severity == "error"]


@pytest.mark.spec("C-31", "C-20")
@pytest.mark.parametrize(
    ("place", "rule", "extensions"),
    [
        pytest.param(RULE, "{when: true, then: {do: fail}}", [], id="a task rule"),
        pytest.param(RULE, "{else: {then: {do: fail}}}", [], id="a task's fallback"),
        pytest.param(GATE, "{when: true, then: {allow: true}}", [], id="a gate"),
        pytest.param(GATE, "{else: {then: {allow: true}}}", [], id="a gate's fallback"),
        pytest.param(CASE, f"{{when: true, then: {TASKS}}}", ["legacy"], id="a case"),
        pytest.param(CASE, f"{{else: {TASKS}}}", ["legacy"], id="a case's fallback"),
    ],
)
def test_the_shape_of_the_scope_is_accepted(
    place: str, rule: str, extensions: list[str]
) -> None:
    assert errors(place.replace("RULE", rule), *extensions) == []


@pytest.mark.spec("C-31", "C-20")
@pytest.mark.parametrize("extensions", [[], ["legacy"]], ids=["canonical", "legacy"])
@pytest.mark.parametrize(
    ("place", "rule", "code"),
    [
        pytest.param(
            RULE, "{when: true, then: {allow: true}}", "VAL-10", id="a gate's in a task"
        ),
        pytest.param(
            RULE, f"{{when: true, then: {TASKS}}}", "VAL-10", id="a case's in a task"
        ),
        pytest.param(
            RULE, f"{{else: {TASKS}}}", "S-18", id="a case's fallback in a task"
        ),
        pytest.param(
            RULE, "{else: {do: fail}}", "VAL-10", id="a fallback without then"
        ),
        pytest.param(
            GATE, "{when: true, then: {do: fail}}", "VAL-20", id="a task's in a gate"
        ),
        pytest.param(
            GATE, f"{{when: true, then: {TASKS}}}", "ADM-02", id="a case's in a gate"
        ),
    ],
)
def test_the_shape_of_another_scope_is_rejected(
    place: str, rule: str, code: str, extensions: list[str]
) -> None:
    assert code in errors(place.replace("RULE", rule), *extensions)
