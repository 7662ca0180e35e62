"""What the language does not have, each said where it stands."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from noetl import load

STEP = "- step: start\n  tool: {kind: noop}\n"

Say = Callable[..., list[tuple[str, str, int, int]]]
Document = Callable[..., str]


@pytest.mark.spec("VAL-03")
@pytest.mark.parametrize("loop", ["{in: [1]}", "{iterator: item}", "{}"])
def test_a_loop_has_both_in_and_iterator(
    say: Say, document: Document, loop: str
) -> None:
    text = document(f"{STEP}  loop: {loop}\n")
    assert say(text) == [("VAL-03", "error", 7, 11)]


@pytest.mark.spec("VAL-05")
def test_there_are_no_root_vars(say: Say, document: Document) -> None:
    assert say(document(STEP, "vars: {a: 1}\n")) == [("VAL-05", "error", 4, 1)]


@pytest.mark.spec("VAL-07")
@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("apiVersion: noetl.io/v2\n", ""),
        ("noetl.io/v2", "noetl.io/v9"),
        ("kind: Playbook\n", ""),
        ("kind: Playbook", "kind: Recipe"),
        ("name: t, ", ""),
        (", path: tests/t", ""),
    ],
)
def test_the_head_of_a_document_is_whole(
    document: Document, before: str, after: str
) -> None:
    text = document(STEP).replace(before, after, 1)
    loaded = load(text)
    assert not loaded.valid
    assert {each.code for each in loaded.diagnostics} == {"VAL-07"}


@pytest.mark.spec("VAL-07")
@pytest.mark.parametrize("workflow", ["", "workflow:\n", "workflow: []\n"])
def test_a_playbook_has_steps(document: Document, workflow: str) -> None:
    head, _, _ = document(STEP).partition("workflow:")
    loaded = load(head + workflow)
    assert not loaded.valid
    assert {each.code for each in loaded.diagnostics} == {"VAL-07"}


@pytest.mark.spec("VAL-18")
def test_the_mode_of_a_router_is_not_a_steps(say: Say, document: Document) -> None:
    text = document(f"{STEP}  spec: {{next_mode: inclusive}}\n")
    assert say(text) == [("VAL-18", "error", 7, 12)]


@pytest.mark.spec("VAL-19", "SCOPE-11")
@pytest.mark.parametrize("key", ["vars", "set_vars"])
def test_a_step_has_no_vars(say: Say, document: Document, key: str) -> None:
    text = document(f"{STEP}  {key}: {{a: 1}}\n")
    assert say(text) == [("VAL-19", "error", 7, 5)]


@pytest.mark.spec("VAL-20")
@pytest.mark.parametrize("place", ["executor", "step"])
def test_only_a_task_has_directives(say: Say, document: Document, place: str) -> None:
    policy = "spec: {policy: {rules: [{else: {then: {do: fail}}}]}}"
    if place == "executor":
        text = document(STEP, f"executor: {{{policy}}}\n")
    else:
        text = document(f"{STEP}  {policy}\n")
    assert [each[:2] for each in say(text)] == [("VAL-20", "error")]


@pytest.mark.spec("VAL-23")
@pytest.mark.parametrize("keychain", ["{pg: secret}", "[secret]", "[{name: pg}]"])
def test_a_keychain_is_a_list_of_entries(document: Document, keychain: str) -> None:
    loaded = load(document(STEP, f"keychain: {keychain}\n"))
    assert not loaded.valid
    assert {each.code for each in loaded.diagnostics} == {"VAL-23"}
    assert {each.line for each in loaded.diagnostics} == {4}


@pytest.mark.spec("KEY-08", "VAL-23")
def test_credentials_are_not_declared_under_executor(
    say: Say, document: Document
) -> None:
    text = document(STEP, "executor: {credentials: [pg]}\n")
    assert say(text) == [("VAL-23", "error", 4, 12)]


@pytest.mark.spec("TPL-02")
@pytest.mark.parametrize("word", ["if", "unless", "condition"])
def test_when_is_the_only_word_for_a_condition(document: Document, word: str) -> None:
    arc = '  next: {arcs: [{step: end, %s: "{{ false }}"}]}\n- step: end\n'
    end = "  tool: {kind: noop}\n"
    assert load(document(STEP + arc % "when" + end)).valid
    loaded = load(document(STEP + arc % word + end))
    assert [(each.code, each.severity) for each in loaded.diagnostics] == [
        ("VAL-16", "error")
    ]
    assert "'when' is the only one" in loaded.diagnostics[0].message
