"""Without its switch no form of a dialect is accepted; nothing behind it knows one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from noetl import load
from noetl.dsl.diagnostics import Diagnostic
from noetl.dsl.grammar import earlier_forms
from noetl.dsl.grammar.earlier_forms import accepted
from noetl.dsl.grammar.schema import RECORDS
from noetl.dsl.parse.tasks import RETIRED

ROOT = Path(__file__).parents[3]
SOURCE = ROOT / "src" / "noetl"
FORMS = sorted((ROOT / "tests" / "playbooks" / "invalid").glob("classic-*.yaml"))
HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: t}\n"
TOOL, LAST = "tool: {kind: noop}", "\n  - {step: b, tool: {kind: noop}}"
STEP = "workflow:\n  - {step: a, tool: {kind: noop}, "
ARC = STEP + "next: {arcs: [{step: b%s}]%s}}" + LAST

VALUES = {
    "when": '"{{ true }}"',
    "case": "[{when: true, then: [{t: {tool: {kind: noop}}}]}]",
    "retry": "{max_attempts: 2}",
    "poll": '{until: "{{ true }}", interval: 1s, max_attempts: 2}',
    "sink": "{tool: {kind: noop}}",
    "args": "{a: 1}",
    "vars": "{a: 1}",
    "set_vars": "{a: 1}",
    "next_mode": "exclusive",
    "case_mode": "inclusive",
    "eval_mode": "on_entry",
    "branch_order": "source",
    "next_policy": "defer",
    "on_error": "fail",
    "batch_size": "2",
    "async": "true",
    "to": "[{step: b}]",
    "priority": "1",
    "policy": "defer",
    "delay": "1s",
    "with": "{a: 1}",
}
# By the record that has the key: a playbook with "KEY: VALUE" in it.
PLACES = {
    "playbook": "KEY: VALUE\n" + STEP + "}",
    "step": STEP + "KEY: VALUE}",
    "step_spec": STEP + "spec: {KEY: VALUE}}",
    "loop_spec": STEP + "loop: {in: [1], iterator: n, spec: {KEY: VALUE}}}",
    "task": "workflow:\n  - {step: a, tool: {kind: noop, KEY: VALUE}}",
    "task_spec": "workflow:\n  - {step: a, tool: {kind: noop, spec: {KEY: VALUE}}}",
    "router": ARC % ("", ", KEY: VALUE"),
    "next_spec": ARC % ("", ", spec: {KEY: VALUE}"),
    "arc": ARC % (", KEY: VALUE", ""),
}
WHOLE = {
    ("loop", "collection"): STEP + "loop: {collection: [1], iterator: n}}",
    ("loop", "element"): STEP + "loop: {in: [1], element: n}}",
    ("router", "to"): STEP + "next: {to: [{step: b}]}}" + LAST,
}


def retired() -> list[tuple[str, str, str]]:
    found = [
        (record.name, key, each.replacement)
        for record in RECORDS
        for key, each in record.retired.items()
        if each.dialect == "legacy"
    ]
    return [
        *found,
        *((("task"), key, e.replacement) for key, e in RETIRED.items() if e.dialect),
    ]


def written(record: str, key: str) -> str:
    place = WHOLE.get((record, key)) or PLACES[record]
    return HEAD + place.replace("KEY", key).replace("VALUE", VALUES.get(key, "")) + "\n"


def said(found: tuple[Diagnostic, ...]) -> list[tuple[str, str]]:
    return [(each.message, each.hint or "") for each in found]


@pytest.mark.spec("VAL-24", "S-01")
@pytest.mark.parametrize(("record", "key", "canonical"), retired())
def test_a_key_of_the_legacy_dialect_is_refused_with_both_ways_out(
    record: str, key: str, canonical: str
) -> None:
    text = written(record, key)
    told = f"{canonical}, or enable the extension 'legacy'"
    refused = load(text).diagnostics

    assert told in [hint for message, hint in said(refused) if f"'{key}'" in message]
    accepted = load(text, extensions=frozenset({"legacy"}))
    assert accepted.valid, said(accepted.diagnostics)
    assert not [hint for _, hint in said(accepted.diagnostics) if hint == told]


@pytest.mark.spec("VAL-24", "S-01", "VAL-13")
@pytest.mark.parametrize("form", ["b", "[b]", "[{step: b}]"])
def test_a_router_of_the_legacy_dialect_is_refused_with_both_ways_out(
    form: str,
) -> None:
    text = HEAD + STEP + f"next: {form}}}" + LAST + "\n"
    [(message, hint)] = said(load(text).diagnostics)

    assert "'next' must be a router" in message
    assert "{arcs: [{step: " in hint
    assert hint.endswith(", or enable the extension 'legacy'")
    assert load(text, extensions=frozenset({"legacy"})).valid


@pytest.mark.spec("VAL-24", "S-01")
def test_every_classic_form_is_refused_with_both_remedies() -> None:
    """That the switch accepts each of them is shown in test_classic.py."""
    told = {
        hint for path in FORMS for _, hint in said(load(path.read_bytes()).diagnostics)
    }
    tables = [
        *earlier_forms.INPUTS.values(),
        earlier_forms.KINDS,
        earlier_forms.KEYCHAIN,
        earlier_forms.NAMES,
    ]
    canonical = {form for each in tables for form in each.values()}
    canonical |= set(earlier_forms.KEYCHAIN_FIELDS.values())
    canonical |= {f"'{name}'" for name in earlier_forms.EVENTS.values()}

    assert {accepted(form) for form in canonical} <= told


@pytest.mark.spec("S-01", "C-01")
@pytest.mark.parametrize("part", ["engine", "net", "templates", "runtime", "dsl"])
def test_nothing_behind_the_front_ends_knows_a_dialect(part: str) -> None:
    mention = re.compile(r"legacy|classic|\b003\b", re.IGNORECASE)
    found = {
        path.relative_to(SOURCE).as_posix()
        for path in (SOURCE / part).rglob("*.py")
        if mention.search(path.read_text())
    }

    assert found == ({"dsl/grammar/earlier_forms.py"} if part == "dsl" else set())
