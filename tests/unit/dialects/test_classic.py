"""The dialect ``classic`` on its own: what becomes of a document."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from noetl import load
from noetl.dsl.canonical import canonical, to_yaml

ROOT = Path(__file__).parents[2]
WILD = sorted((ROOT / "e2e" / "classic").glob("*.yaml"))
FORMS = sorted((ROOT / "playbooks" / "invalid").glob("classic-*.yaml"))
ON = frozenset({"classic"})
HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: t}\n"


def names(paths: list[Path]) -> list[Any]:
    return [pytest.param(path, id=path.stem) for path in paths]


def workflow(text: str, extensions: frozenset[str] = ON) -> Any:
    loaded = load(HEAD + text, extensions=extensions)
    assert loaded.playbook is not None, [d.message for d in loaded.diagnostics]
    return canonical(loaded.playbook)["workflow"]


@pytest.mark.spec("S-01")
@pytest.mark.parametrize("path", names(FORMS))
def test_with_the_switch_each_form_is_a_warning_where_it_was_an_error(
    path: Path,
) -> None:
    content = path.read_bytes()
    off, on = load(content).diagnostics, load(content, extensions=ON)
    told = {each.line for each in off if "'classic'" in (each.hint or "")}

    assert on.valid, [each.message for each in on.diagnostics]
    accepted = [each for each in on.diagnostics if each.code == "S-01"]
    assert {each.severity for each in accepted} == {"warning"}
    assert told <= {each.line for each in accepted}
    assert all("canonical form: " in (each.hint or "") for each in accepted)


@pytest.mark.spec("S-01")
@pytest.mark.parametrize("path", names(FORMS + WILD))
def test_no_place_is_warned_of_twice_for_the_same(path: Path) -> None:
    found = load(path.read_bytes(), extensions=ON).diagnostics
    accepted = [(d.line, d.column, d.message) for d in found if d.code == "S-01"]

    assert len(accepted) == len(set(accepted))


@pytest.mark.parametrize("path", names(FORMS + WILD))
def test_what_is_rewritten_is_not_rewritten_again(path: Path) -> None:
    first = load(path.read_bytes(), extensions=ON).playbook
    assert first is not None
    again = load(to_yaml(canonical(first)), extensions=ON).playbook

    assert again is not None
    assert canonical(again) == canonical(first)


@pytest.mark.spec("C-34")
def test_a_name_that_becomes_one_of_the_event_makes_its_texts_canonical() -> None:
    [start, _, _] = workflow(
        """
workflow:
  - step: start
    tool: {kind: python, code: "return {'n': 1}"}
    next:
      arcs: [{step: scale, when: "{{ evnt == 'call.done' and start.n > 0 }}"}]
  - {step: scale, next: [{step: end}]}
  - step: end
"""
    )

    [arc] = start["next"]["arcs"]
    assert arc["when"] == "{{ evnt == 'step.done' and event.payload.result.n > 0 }}"


def test_only_results_that_are_read_are_handed_on() -> None:
    steps = workflow(
        "workflow:\n"
        "  - step: start\n"
        "    tool: {kind: noop, result: {a: 1}}\n"
        "    next: {arcs: [{step: other}]}\n"
        "  - step: other\n"
        "    tool: {kind: noop, result: '{{ start.a }}'}\n"
        "    next: {arcs: [{step: last}]}\n"
        "  - step: last\n"
        "    tool: {kind: noop}\n"
    )

    assert list(steps[0]["next"]["arcs"][0]["args"]) == ["start"]
    assert "args" not in steps[1]["next"]["arcs"][0]


@pytest.mark.spec("C-34")
def test_a_name_that_the_author_gives_means_that() -> None:
    text = (
        "workflow:\n"
        "  - step: start\n"
        "    tool: {kind: noop}\n"
        "    next: {arcs: [{step: last, args: {start: mine}}]}\n"
        "  - step: last\n"
        "    tool: {kind: noop, result: '{{ start }}'}\n"
    )

    assert workflow(text)[0]["next"]["arcs"][0]["args"] == {"start": "mine"}
    assert not load(HEAD + text, extensions=ON).diagnostics


@pytest.mark.spec("C-34", "LOOP-07")
def test_an_iterator_wins_over_a_step_of_its_name() -> None:
    steps = workflow(
        "workflow:\n"
        "  - step: item\n"
        "    tool: {kind: noop, result: [1]}\n"
        "    next: {arcs: [{step: each}]}\n"
        "  - step: each\n"
        "    loop: {in: '{{ item }}', iterator: item}\n"
        "    tool: {kind: noop, result: '{{ item }}'}\n"
        "    next: {arcs: [{step: last}]}\n"
        "  - step: last\n"
        "    tool: {kind: noop, result: '{{ item }}'}\n"
    )
    [task] = steps[1]["tool"]

    assert next(iter(task.values()))["result"] == "{{ iter.item }}"
    assert steps[1]["loop"]["in"] == "{{ item }}"
    assert list(steps[0]["next"]["arcs"][0]["args"]) == ["item"]


def test_a_method_that_only_the_run_knows_decides_in_the_run() -> None:
    [step] = workflow(
        "workflow:\n"
        "  - step: start\n"
        "    tool: {kind: http, url: 'http://a', method: '{{ m }}', data: {a: 1}}\n"
    )
    [task] = step["tool"]

    assert next(iter(task.values()))["payload"] == {"a": 1}


@pytest.mark.parametrize(
    ("tool", "message"),
    [
        ("{kind: python, libs: {m: 'os; evil'}, code: x}", "does not name a module"),
        ("{kind: python, libs: {m: math}, module: x}", "which is missing"),
        ("{kind: python, script: {source: {}}}", "has no 'uri'"),
        ("{kind: shell, cmds: [[ls]]}", "a list of texts"),
        ("{kind: postgres, dsn: d, commands: [1]}", "is not SQL"),
        ("{kind: playbook, path: p, args: '{{ a }}', return_step: s}", "a mapping"),
    ],
)
def test_what_even_the_dialect_cannot_read_is_an_error(tool: str, message: str) -> None:
    text = f"workflow:\n  - step: start\n    tool: {tool}\n"
    found = load(HEAD + text, extensions=ON)

    assert not found.valid
    assert message in " ".join(d.message for d in found.diagnostics)
