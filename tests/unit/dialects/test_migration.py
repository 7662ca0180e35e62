"""Older playbooks in the language of today: the same meaning, the same layout."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from noetl.adapters.tools import BUILTIN
from noetl.dialects import load
from noetl.dialects.migration import Migrated, migrate
from noetl.dsl.canonical import canonical
from noetl.dsl.model import Playbook

ROOT = Path(__file__).parents[2]
ALL = [
    *sorted((ROOT / "e2e" / "classic").glob("*.yaml")),
    *sorted((ROOT / "playbooks" / "invalid").glob("classic-*.yaml")),
    *sorted((ROOT.parent / "examples" / "classic").glob("*.yaml")),
]
ON = frozenset({"classic"})
HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: t}  # name\n"
SWITCH = "executor:\n  spec:\n    extensions: [classic]\n"


def done(text: str) -> Migrated:
    return migrate(text, BUILTIN, ON)


def texts() -> list[Any]:
    return [pytest.param(path.read_text(), id=path.stem) for path in ALL]


def meaning(playbook: Playbook) -> Any:
    """Return the canonical form, without the switch and what it adds to tasks."""

    def bare(value: Any) -> Any:
        if isinstance(value, list):
            return [bare(each) for each in value]
        if not isinstance(value, dict):
            return value
        gone = ("dialect", "statements", "extensions")
        found = {key: bare(each) for key, each in value.items() if key not in gone}
        return {k: v for k, v in found.items() if (k, v) != ("spec", {})}

    found = bare(canonical(playbook))
    found.pop("executor", None)
    return found


@pytest.mark.parametrize("text", texts())
def test_a_migrated_playbook_means_the_same_or_names_its_extension(text: str) -> None:
    before, found = load(text, BUILTIN, ON).playbook, done(text)
    assert found.text is not None
    after = load(found.text, BUILTIN).playbook

    assert before is not None
    assert after is not None
    assert meaning(after) == meaning(before)
    assert bool(found.left) == ("classic" in after.extensions)


@pytest.mark.parametrize("text", texts())
def test_what_was_rewritten_stays_as_it_is(text: str) -> None:
    found = done(text)
    assert found.text is not None

    assert done(found.text) == found


@pytest.mark.parametrize("text", texts())
def test_comments_stay(text: str) -> None:
    found = done(text)
    assert found.text is not None
    comments = [line for line in text.splitlines() if line.startswith("#")]

    assert [
        line for line in found.text.splitlines() if line.startswith("#")
    ] == comments


def test_only_what_is_older_is_touched() -> None:
    workflow = (
        "workflow:\n"
        "  # first\n"
        "  - step: start   # here\n"
        "    tool:\n"
        "      - name: list\n"
        "        kind: shell\n"
        "        cmds:        # two of them\n"
        "          - ls\n"
        "          - pwd\n"
        "        timeout: 5\n"
        "    next:\n"
        "      arcs:\n"
        "        - step: last\n"
        "          when: \"{{ event.name == 'call.done' }}\"\n"
        "\n"
        "  - step: last\n"
        '    tool: {kind: noop, result: "{{ start.stdout }}"}  # end\n'
    )
    expected = (
        "workflow:\n"
        "  # first\n"
        "  # two of them\n"
        "  - step: start   # here\n"
        "    tool:\n"
        "      - name: list\n"
        "        kind: shell\n"
        "        script: |-\n"
        "          set -e\n"
        "          ls\n"
        "          pwd\n"
        "        spec: {timeout: 5}\n"
        "    next:\n"
        "      arcs:\n"
        "        - step: last\n"
        "          when: \"{{ event.name == 'step.done' }}\"\n"
        "          args:\n"
        '            start: "{{ event.payload.result | default('
        "{'status': 'error', 'error': event.payload.error}) }}\"\n"
        "\n"
        "  - step: last\n"
        '    tool: {kind: noop, result: "{{ start.stdout }}"}  # end\n'
    )
    found = done(HEAD + SWITCH + workflow)

    assert found.left == ()
    assert found.text == HEAD + expected
    assert load(found.text, BUILTIN).valid


def test_what_has_no_exact_equivalent_is_listed_and_keeps_the_switch() -> None:
    workflow = (
        "workflow:\n"
        "  - step: start\n"
        "    tool:\n"
        "      - {name: get, kind: http, endpoint: 'http://a', payload: {a: 1}}\n"
        "      - {name: add, kind: python, code: return 1}\n"
    )
    found = done(HEAD + SWITCH + workflow)

    assert found.text is not None
    assert "params: {a: 1}" in found.text
    assert SWITCH in found.text
    assert [each.line for each in found.left] == [10, 11]


def test_a_playbook_that_is_none_is_not_migrated() -> None:
    found = done("workflow: 3\n")

    assert found.text is None
    assert found.left


def test_anchors_are_left_to_their_author() -> None:
    text = (ROOT / "e2e" / "classic" / "bodies.yaml").read_text()

    found = done(text).text or ""
    switch = "executor: {spec: {extensions: [classic]}}\n"

    assert switch in found
    assert found.replace(switch, "") == text
