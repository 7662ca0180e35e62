"""ACC-02: a rule without ``then.do`` is rejected."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from noetl import load

PLAYBOOK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: directive, path: acceptance/directive}
workflow:
  - step: start
    tool:
      - fetch:
          kind: http
          url: "https://api.example.com/items"
          spec:
            policy:
              rules:
                - RULE
                - when: "{{ outcome.status == 'ok' }}"
                  then: {do: continue}
"""
WHEN = "when: \"{{ outcome.status == 'error' }}\""
LINE = PLAYBOOK[: PLAYBOOK.index("RULE")].count("\n") + 1


@pytest.mark.spec("ACC-02", "VAL-10", "POL-07")
@pytest.mark.parametrize(
    "rule",
    [
        pytest.param(f"{{{WHEN}}}", id="no then"),
        pytest.param(f"{{{WHEN}, then: {{}}}}", id="an empty then"),
        pytest.param(f"{{{WHEN}, then: {{attempts: 3, delay: 1}}}}", id="no do"),
        pytest.param(f"{{{WHEN}, then: {{set_ctx: {{a: 1}}}}}}", id="only a patch"),
        pytest.param(f"{{{WHEN}, then: {{do: null}}}}", id="do is null"),
        pytest.param(f"{{{WHEN}, then: fail}}", id="then is a word"),
        pytest.param("{else: {}}", id="else without then"),
        pytest.param("{else: {then: {}}}", id="else with an empty then"),
        pytest.param("{else: {then: {set_ctx: {a: 1}}}}", id="else with only a patch"),
    ],
)
def test_a_rule_without_a_directive_is_rejected(rule: str) -> None:
    loaded = load(PLAYBOOK.replace("RULE", rule))
    errors = [found for found in loaded.diagnostics if found.severity == "error"]

    assert not loaded.valid
    assert [(found.code, found.line) for found in errors] == [("VAL-10", LINE)]


@pytest.mark.spec("ACC-02", "POL-07")
@pytest.mark.parametrize(
    ("rule", "status"),
    [
        (f"{{{WHEN}, then: {{do: fail}}}}", "failed"),
        (f"{{{WHEN}, then: {{do: continue}}}}", "completed"),
        ("{else: {then: {do: fail}}}", "failed"),
    ],
)
def test_with_a_directive_it_is_accepted_and_obeyed(
    accept: Callable[..., Any], http: Callable[..., Any], rule: str, status: str
) -> None:
    simulation = accept(PLAYBOOK.replace("RULE", rule), lambda call: http(500))

    assert simulation.state.status == status
