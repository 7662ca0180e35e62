"""The editors' JSON Schema agrees with the checker about shapes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import jsonschema_rs
import pytest

from noetl import load
from noetl.adapters.tools import BUILTIN
from noetl.dsl.diagnostics import Report
from noetl.dsl.grammar.schema import playbook_schema
from noetl.dsl.source import read_source
from noetl.types import JSON

ROOT = Path(__file__).parents[3]
SCHEMA = playbook_schema(BUILTIN)


def plain(text: str | bytes) -> JSON:
    root = read_source(text, Report())
    assert root is not None
    return root.plain()


def is_canonical(path: Path) -> bool:
    """Extensions add keys that the schema of the language itself cannot know."""
    spec = (plain(path.read_bytes()).get("executor") or {}).get("spec") or {}
    return "extensions" not in spec


GOOD = sorted((ROOT / "tests/playbooks/valid").glob("*.yaml"))
GOOD += sorted(
    path for path in (ROOT / "examples").glob("*.yaml") if ".test" not in path.suffixes
)


@pytest.fixture(scope="module")
def validator() -> jsonschema_rs.Draft202012Validator:
    return jsonschema_rs.Draft202012Validator(SCHEMA)


@pytest.mark.spec("SRV-06")
def test_it_is_a_schema_of_draft_2020_12() -> None:
    jsonschema_rs.meta.validate(SCHEMA)
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"


@pytest.mark.spec("SRV-06")
@pytest.mark.parametrize(
    "path", [pytest.param(p, id=p.stem) for p in GOOD if is_canonical(p)]
)
def test_a_valid_playbook_fits(
    path: Path, validator: jsonschema_rs.Draft202012Validator
) -> None:
    errors = [
        error.message for error in validator.iter_errors(plain(path.read_bytes()))
    ]
    assert errors == []


# Bad playbooks whose fault a schema can see: a key, a type, a choice, a range.
SHAPES = [
    "admit-rules",
    "admit-shape",
    "api-version",
    "api-version-missing",
    "arc-shape",
    "condition-key",
    "do-choice",
    "eval",
    "executor-credentials",
    "executor-spec",
    "expr",
    "join",
    "keychain-entry",
    "keychain-type",
    "kind-wrong",
    "loop-choices",
    "loop-key",
    "loop-missing",
    "loop-tool",
    "max-in-flight",
    "metadata-incomplete",
    "metadata-missing",
    "metadata-type",
    "metadata-version",
    "next-arcs-empty",
    "next-arcs-type",
    "next-list",
    "next-mode",
    "next-text",
    "next-to",
    "patch-type",
    "pipeline-shape",
    "policy-list",
    "policy-without-rules",
    "retry-numbers",
    "root-key",
    "root-list",
    "root-text",
    "root-types",
    "root-vars",
    "router-key",
    "rule-key",
    "rule-shape",
    "rule-type",
    "rule-without-do",
    "spec-keys",
    "step-case",
    "step-case-mode",
    "step-key",
    "step-missing",
    "step-next-mode",
    "step-poll",
    "step-retry",
    "step-set-vars",
    "step-sink",
    "step-types",
    "step-vars",
    "step-when",
    "task-spec",
    "tool-input",
    "tool-input-type",
    "tool-kind",
    "when-without-delimiters",
    "workflow-empty",
    "workflow-missing",
    "workflow-type",
]


@pytest.mark.spec("SRV-06")
@pytest.mark.parametrize("name", SHAPES)
def test_a_playbook_of_wrong_shape_does_not_fit(
    name: str, validator: jsonschema_rs.Draft202012Validator
) -> None:
    content = (ROOT / f"tests/playbooks/invalid/{name}.yaml").read_bytes()
    assert not load(content).valid
    assert not validator.is_valid(plain(content))


TASK = "- step: start\n  tool: TASK\n"
BOTH = [
    pytest.param(TASK.replace("TASK", "{kind: noop, name: 5}"), "", id="any input"),
    pytest.param(
        TASK.replace("TASK", "{kind: http, url: x, spec: {verify: '{{ true }}'}}"),
        "",
        id="a knob as a template",
    ),
    pytest.param(
        TASK.replace("TASK", "{kind: http, url: x, headers: '{{ {} }}'}"),
        "",
        id="an input as a template",
    ),
    pytest.param(
        TASK.replace("TASK", "{kind: workbook, name: w, url: x}"),
        "workbook: {w: {kind: http, method: GET}}\n",
        id="a template that leaves an input to its task",
    ),
    pytest.param(
        TASK.replace("TASK", "{kind: http, endpoint: x}"), "", id="another input name"
    ),
    pytest.param(
        TASK.replace("TASK", "{kind: noop}"),
        "executor: {spec: {http: {timeout: {read: 5}, verify: false}, deadline: 5m}}\n",
        id="a kind's subtree",
    ),
    pytest.param(
        TASK.replace(
            "TASK", "[{kind: noop}, {name: b, kind: noop}, {c: {kind: noop}}]"
        ),
        "",
        id="every shape of a task",
    ),
    pytest.param(
        "- step: start\n"
        "  loop: {in: [1], iterator: a, loop: {in: '{{ [1] }}', iterator: b}}\n"
        "  tool: {kind: noop}\n",
        "",
        id="loops inside loops",
    ),
    pytest.param(
        "- step: start\n  next: {arcs: [{step: start, when: false}]}\n",
        "",
        id="a boolean guard",
    ),
    pytest.param(
        "- step: start\n  spec: {policy: {own_hint: 1}, join: {mode: 2}}\n"
        "  tool: {kind: noop, spec: {policy: {rules: [], hint: 1}, retry: 3}}\n",
        "",
        id="hints",
    ),
]
NEITHER = [
    pytest.param(TASK.replace("TASK", "{kind: http}"), "", id="a missing input"),
    pytest.param(
        TASK.replace("TASK", "{kind: http, url: x, endpoint: y}"), "", id="two of one"
    ),
    pytest.param(
        TASK.replace("TASK", "{kind: http, url: x, json: 1, body: 2}"), "", id="bodies"
    ),
    pytest.param(
        TASK.replace("TASK", "{kind: workbook, name: w}"),
        "workbook: {w: {kind: workbook, name: v}}\n",
        id="a template of kind workbook",
    ),
    pytest.param(
        TASK.replace("TASK", "{kind: workbook, name: w}"),
        "workbook: {w: {kind: http, ulr: x}}\n",
        id="an unknown input in a template",
    ),
    pytest.param(
        "- step: start\n  next: {arcs: [{step: start, when: ok}]}\n",
        "",
        id="a guard without delimiters",
    ),
    pytest.param(
        TASK.replace(
            "TASK",
            "{kind: noop, spec: {policy: {rules: "
            "[{else: {then: {do: fail}}, then: {do: fail}}]}}}",
        ),
        "",
        id="then beside else",
    ),
]


@pytest.mark.spec("SRV-06", "S-53", "C-21")
@pytest.mark.parametrize(("steps", "root"), BOTH)
def test_both_accept(
    document: Callable[..., str],
    validator: jsonschema_rs.Draft202012Validator,
    steps: str,
    root: str,
) -> None:
    text = document(steps, root)
    assert load(text).valid, load(text).diagnostics
    assert [error.message for error in validator.iter_errors(plain(text))] == []


@pytest.mark.spec("SRV-06", "S-50", "S-53", "S-18")
@pytest.mark.parametrize(("steps", "root"), NEITHER)
def test_parser_and_json_schema_both_refuse(
    document: Callable[..., str],
    validator: jsonschema_rs.Draft202012Validator,
    steps: str,
    root: str,
) -> None:
    text = document(steps, root)
    assert not load(text).valid
    assert not validator.is_valid(plain(text))
