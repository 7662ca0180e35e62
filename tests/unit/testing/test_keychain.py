"""Secrets of a test are made up in its file; no provider is asked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Judge = Callable[..., Any]

PLAYBOOK = """
keychain: [{name: key, kind: env}]
workflow:
  - step: s
    tool: {kind: http, url: "u?{{ keychain.key }}"}
"""
PARENT = "- {step: s, tool: {kind: playbook, path: c}}"


@pytest.mark.spec("KEY-02")
def test_a_task_gets_the_value_that_the_case_gives(judge: Judge) -> None:
    case = """
        keychain: {key: own-made-up}
        tasks: {s: {result: "got own-made-up"}}
        expect:
          result: got ***
          calls: {s: {inputs: [{$subset: {url: u?own-made-up}}]}}
    """

    judged = judge(PLAYBOOK, case, shared="keychain: {key: of-the-file}")

    assert judged.passed, judged.messages


def test_an_entry_without_a_value_is_said_before_anything_runs(
    complaints: Callable[..., Any],
) -> None:
    (found,) = complaints("cases: [{name: a, expect: {}}]", PLAYBOOK)

    assert found.message == "case 'a' has no value for keychain entry 'key'"
    assert found.hint == "add a made-up one: keychain: {key: …}"


def test_a_value_that_no_entry_takes_is_said(complaints: Callable[..., Any]) -> None:
    text = "keychain: {key: a, kee: b}\ncases: [{name: a, expect: {}}]"

    (found,) = complaints(text, PLAYBOOK)

    assert found.message == "no keychain entry 'kee' of the playbook"
    assert "'key'" in found.hint


def test_a_child_shares_the_keychain_of_the_case(judge: Judge) -> None:
    case = """
        keychain: {key: made-up}
        playbooks: {c: {tasks: {s: {result: "{{ inputs.url | length }}"}}}}
        expect: {result: 9}
    """

    judged = judge(PARENT, case, {"c": PLAYBOOK})

    assert judged.passed, judged.messages


def test_a_childs_entry_without_a_value_is_said(judge: Judge) -> None:
    (fault,) = judge(PARENT, "expect: {}", {"c": PLAYBOOK}).verdict.faults

    assert fault.message == "'c' has no value for keychain entry 'key'"
    assert fault.hint == "add one: keychain: {key: …}"
