"""ACC-01: a task policy that is not an object with rules is rejected."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from noetl import load

PLAYBOOK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: policy, path: acceptance/policy}
workflow:
  - step: start
    tool:
      - fetch:
          kind: http
          url: "https://api.example.com/items"
          spec:
            policy: POLICY
"""
RULE = "{when: \"{{ outcome.status == 'error' }}\", then: {do: fail}}"
ELSE = "{else: {then: {do: continue}}}"


@pytest.mark.spec("ACC-01", "VAL-09", "POL-01")
@pytest.mark.parametrize("extensions", [[], ["legacy"]], ids=["canonical", "legacy"])
@pytest.mark.parametrize(
    "policy",
    [
        pytest.param(f"[{RULE}, {ELSE}]", id="the bare list of rules"),
        pytest.param("[]", id="an empty list"),
        pytest.param("fail", id="a word"),
        pytest.param("3", id="a number"),
        pytest.param("true", id="a boolean"),
        pytest.param("null", id="null"),
        pytest.param("{}", id="an object without rules"),
        pytest.param(f"{{rules: {RULE}}}", id="rules that are one rule"),
        pytest.param("{rules: fail}", id="rules that are a word"),
    ],
)
def test_a_policy_must_be_an_object_with_rules(
    policy: str, extensions: list[str]
) -> None:
    loaded = load(PLAYBOOK.replace("POLICY", policy), extensions=frozenset(extensions))
    errors = [found for found in loaded.diagnostics if found.severity == "error"]

    assert not loaded.valid
    assert [found.code for found in errors] == ["VAL-09"]
    assert errors[0].path.startswith("workflow[0].tool[0].fetch.spec")
    assert errors[0].line == PLAYBOOK[: PLAYBOOK.index("POLICY")].count("\n") + 1


@pytest.mark.spec("ACC-01", "POL-01", "POL-02")
def test_an_object_with_rules_is_accepted_and_obeyed(
    accept: Callable[..., Any], http: Callable[..., Any]
) -> None:
    text = PLAYBOOK.replace("POLICY", f"{{rules: [{RULE}, {ELSE}]}}")

    failed = accept(text, lambda call: http(500))
    completed = accept(text, lambda call: http(200))

    assert load(text).diagnostics == ()
    assert failed.state.status == "failed"
    assert completed.state.status == "completed"
