"""The registered rules: named, explained, traceable, provoked."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from noetl import load
from noetl.dsl.rules import RULES, Rule

ROOT = Path(__file__).parents[3]
PLAYBOOKS = sorted((ROOT / "tests/playbooks/invalid").glob("*.yaml"))
CHECKLIST = (ROOT / "docs/reference/conformance.md").read_text()
ROWS = set(re.findall(r"^(?:- \*\*|\| )([A-Z]+(?:-[A-Z]+)*-\d+)", CHECKLIST, re.M))

# Rules whose bad playbook would be too large for a file; see tests/hostile.
LARGE = {"code-unchecked", "too-many-steps", "too-many-tasks"}

every_rule = pytest.mark.parametrize(
    "rule", [pytest.param(rule, id=f"{rule.code} {rule.name}") for rule in RULES]
)


@pytest.mark.spec("SRV-06")
def test_name_and_code_are_a_rules_identity() -> None:
    identities = [(rule.name, rule.code) for rule in RULES]
    assert len(identities) == len(set(identities))


@pytest.mark.spec("SRV-06")
@every_rule
def test_a_rule_explains_itself(rule: Rule) -> None:
    assert rule.doc.endswith((".", "`")), "its docstring is its page: one sentence"
    assert rule.doc[0].isupper() or rule.doc[0] == "`"


@pytest.mark.spec("SRV-06")
@every_rule
def test_a_rule_serves_a_row_of_the_checklist(rule: Rule) -> None:
    assert rule.code in ROWS


@pytest.mark.spec("SRV-06")
@every_rule
def test_a_severity_fits_the_code(rule: Rule) -> None:
    if rule.code.startswith("WARN-"):
        assert rule.severity == "warning"
    assert rule.severity in ("error", "warning", "hint")


@pytest.fixture(scope="module")
def provoked() -> set[tuple[str, str]]:
    return {
        (found.rule, found.code)
        for path in PLAYBOOKS
        for found in load(path.read_bytes()).diagnostics
    }


@pytest.mark.spec("SRV-06")
@pytest.mark.parametrize(
    "rule",
    [
        pytest.param(rule, id=f"{rule.code} {rule.name}")
        for rule in RULES
        if rule.name not in LARGE
    ],
)
def test_a_bad_playbook_provokes_the_rule(
    rule: Rule, provoked: set[tuple[str, str]]
) -> None:
    assert (rule.name, rule.code) in provoked


@pytest.mark.spec("SRV-06")
def test_every_code_that_is_ever_said_is_a_row(provoked: set[tuple[str, str]]) -> None:
    assert {code for _, code in provoked} <= ROWS
