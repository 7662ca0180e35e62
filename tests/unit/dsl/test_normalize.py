"""Every accepted shape of ``tool`` is the same pipeline."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from noetl import Playbook, load
from noetl.dsl.canonical import canonical, digest

Accept = Callable[..., Playbook]
Say = Callable[..., list[tuple[str, str, int, int]]]

CANONICAL = "- step: start\n  tool:\n    - LABEL: {kind: noop, result: 1}\n"


@pytest.mark.spec("C-21", "PIPE-01", "PIPE-02", "PIPE-03", "SRV-07")
@pytest.mark.parametrize(
    ("shape", "label"),
    [
        pytest.param("{kind: noop, result: 1}", "task_1", id="a single task"),
        pytest.param("[{kind: noop, result: 1}]", "task_1", id="a list of tasks"),
        pytest.param("[{go: {kind: noop, result: 1}}]", "go", id="a labelled list"),
        pytest.param("{go: {kind: noop, result: 1}}", "go", id="a labelled mapping"),
        pytest.param("[{name: go, kind: noop, result: 1}]", "go", id="name as label"),
        pytest.param("{name: go, kind: noop, result: 1}", "go", id="one, with name"),
        pytest.param("[{result: 1, kind: noop, name: go}]", "go", id="keys anyhow"),
    ],
)
def test_all_shapes_are_one_pipeline(accept: Accept, shape: str, label: str) -> None:
    playbook = accept(f"- step: start\n  tool: {shape}\n")
    expected = accept(CANONICAL.replace("LABEL", label))
    assert [task.label for task in playbook.workflow[0].tasks] == [label]
    assert canonical(playbook) == canonical(expected)
    assert digest(playbook) == digest(expected)
    assert playbook.workflow[0].tasks[0].inputs["result"].render({}) == 1
    assert "name" not in playbook.workflow[0].tasks[0].inputs


@pytest.mark.spec("PIPE-01")
def test_the_order_is_that_of_the_text(accept: Accept) -> None:
    playbook = accept(
        "- step: start\n"
        "  tool:\n"
        "    - z: {kind: noop}\n"
        "    - a: {kind: noop}\n"
        "    - m: {kind: noop}\n"
    )
    assert [task.label for task in playbook.workflow[0].tasks] == ["z", "a", "m"]


@pytest.mark.spec("PIPE-04", "S-49")
def test_missing_labels_number_the_position(accept: Accept) -> None:
    text = (
        "- step: start\n"
        "  tool:\n"
        "    - {kind: noop}\n"
        "    - named: {kind: noop}\n"
        "    - {kind: noop}\n"
        "    - {kind: noop, name: four}\n"
        "    - {kind: noop}\n"
    )
    expected = ["task_1", "named", "task_3", "four", "task_5"]
    for _ in range(2):
        assert [t.label for t in accept(text).workflow[0].tasks] == expected


@pytest.mark.spec("S-49", "PIPE-05", "VAL-12")
@pytest.mark.parametrize(
    ("tasks", "place"),
    [
        pytest.param(
            "    - {kind: noop}\n    - task_1: {kind: noop}\n",
            (8, 9),
            id="an explicit label takes a number",
        ),
        pytest.param(
            "    - task_2: {kind: noop}\n    - {kind: noop}\n",
            (8, 9),
            id="a number meets an explicit label",
        ),
        pytest.param(
            "    - a: {kind: noop}\n    - {name: a, kind: noop}\n",
            (8, 16),
            id="a label in two shapes",
        ),
    ],
)
def test_a_label_stands_once(
    document: Callable[..., str], say: Say, tasks: str, place: tuple[int, int]
) -> None:
    text = document("- step: start\n  tool:\n" + tasks)
    assert say(text) == [("VAL-12", "error", *place)]


@pytest.mark.spec("S-69")
@pytest.mark.parametrize(
    ("task", "kind", "inputs"),
    [
        pytest.param(
            "{kind: secrets, name: db}", "secrets", {"name": "db"}, id="of secrets"
        ),
        pytest.param(
            "{kind: workbook, name: hello}", "noop", {"result": 1}, id="of workbook"
        ),
    ],
)
def test_name_is_an_input_of_some_kinds(
    accept: Accept, task: str, kind: str, inputs: dict[str, object]
) -> None:
    for shape in (task, f"[{task}]"):
        playbook = accept(
            f"- step: start\n  tool: {shape}\n",
            "workbook: {hello: {kind: noop, result: 1}}\n",
        )
        [found] = playbook.workflow[0].tasks
        rendered = {key: value.render({}) for key, value in found.inputs.items()}
        assert (found.label, found.kind, rendered) == ("task_1", kind, inputs)


@pytest.mark.spec("S-69")
def test_a_labelled_task_may_have_a_name_input(accept: Accept) -> None:
    playbook = accept("- step: start\n  tool: [{get: {kind: secrets, name: db}}]\n")
    [task] = playbook.workflow[0].tasks
    assert task.label == "get"
    assert task.inputs["name"].render({}) == "db"


@pytest.mark.spec("PIPE-01", "PIPE-02", "VAL-04")
@pytest.mark.parametrize(
    ("tool", "found"),
    [
        pytest.param("[5]", [("PIPE-01", "error", 6, 12)], id="a number"),
        pytest.param("[noop]", [("PIPE-01", "error", 6, 12)], id="a word"),
        pytest.param("[[]]", [("PIPE-01", "error", 6, 12)], id="a list in a list"),
        pytest.param("[]", [("PIPE-01", "warning", 6, 11)], id="an empty list"),
        pytest.param("noop", [("STEP-02", "error", 6, 11)], id="a word alone"),
        pytest.param(
            "[{a: {kind: noop}, b: {kind: noop}}]",
            [("PIPE-02", "error", 6, 12)],
            id="two labels in one entry",
        ),
        pytest.param("[{go: {}}]", [("VAL-04", "error", 6, 17)], id="no kind"),
        pytest.param("{url: x}", [("VAL-04", "error", 6, 11)], id="an input alone"),
        pytest.param("{}", [("VAL-04", "error", 6, 11)], id="an empty mapping"),
        pytest.param(
            "{name: a, kind: {}}", [("VAL-04", "error", 6, 27)], id="a mapping as kind"
        ),
        pytest.param(
            "{kind: [noop]}", [("VAL-04", "error", 6, 18)], id="a list as kind"
        ),
    ],
)
def test_invalid_pipelines(
    document: Callable[..., str],
    say: Say,
    tool: str,
    found: list[tuple[str, str, int, int]],
) -> None:
    assert say(document(f"- step: start\n  tool: {tool}\n")) == found


@pytest.mark.spec("PIPE-03")
def test_one_broken_task_does_not_hide_the_next(document: Callable[..., str]) -> None:
    text = document(
        "- step: start\n"
        "  tool:\n"
        "    - a: {kind: nope}\n"
        "    - 7\n"
        "    - b: {kind: http}\n"
        "    - b: {kind: noop}\n"
    )
    found = [(each.code, each.line) for each in load(text).diagnostics]
    assert found == [("VAL-04", 7), ("PIPE-01", 8), ("S-50", 9), ("VAL-12", 10)]
