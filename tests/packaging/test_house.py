"""The code base keeps the bounds of ``scripts/house.py``, and its figures are right."""

from __future__ import annotations

import ast
import importlib
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"
EXAMPLES = [
    ("opening", "What is queued of an execution is stored together."),
    ("opening", "Whether it stays."),
    ("opening", "S-18: what is done is done."),
    ("of what", "Tools first: of what is left nothing runs."),
    ("whoever", "Let in whoever has the token."),
    ("somebody", "It stays until Somebody resumes it."),
    ("somebody", "The hash is nobody's."),
    ("is no", "The text is no address."),
    ("is no", "Entries that are no tasks are reported."),
    ("is over", "An execution that is over, or set aside."),
    ("under way", "Wait until nothing is under way."),
    ("meanwhile", "The log has moved on meanwhile."),
    ("so many", "Give up to so many pipelines."),
    ("by itself", "Triggers start executions by themselves."),
    ("told", "The parent is told."),
    ("told", "Each server hears of it."),
]
PLAIN = "Return the lease of a worker."


@pytest.fixture(scope="module")
def house() -> ModuleType:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(SCRIPTS))
        return importlib.import_module("house")


@pytest.fixture(scope="module")
def prose(house: ModuleType) -> ModuleType:
    return sys.modules["house_prose"]


class Tree:
    """A package whose files a test writes."""

    def __init__(self, house: ModuleType, folder: Path) -> None:
        self.house = house
        self.folder = folder
        self.write("runtime/orchestrator.py", '"""Runs executions."""\n')

    def write(self, path: str, text: str) -> None:
        file = self.folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def measure(self) -> list[Any]:
        return list(self.house.measure(self.folder, tests=self.folder))

    def figures(self) -> dict[str, float]:
        return {each.name: each.value for each in self.measure()}

    def details(self, name: str) -> list[str]:
        (found,) = (each for each in self.measure() if each.name == name)
        return list(found.details)


@pytest.fixture
def tree(house: ModuleType, tmp_path: Path) -> Tree:
    return Tree(house, tmp_path)


# -- this code base -----------------------------------------------------------------


def test_no_figure_of_this_code_base_is_above_its_bound(house: ModuleType) -> None:
    figures = list(house.measure())
    above = {
        each.name: each.value
        for each in figures
        if each.value > house.BOUNDS[each.name].most
    }
    assert above == {}, "run: .venv/bin/python scripts/house.py --list"
    steps = {name for name in house.BOUNDS if "one step" in name}
    assert {each.name for each in figures} | steps == set(house.BOUNDS)


def test_no_bound_is_below_its_target(house: ModuleType) -> None:
    assert [
        name for name, each in house.BOUNDS.items() if each.most < each.target
    ] == [], "the target is reached: make it the bound"


@pytest.mark.parametrize("host", ["embedded", "cluster"])
def test_one_step_is_traced_from_the_report_to_the_next_call(host: str) -> None:
    command = [sys.executable, SCRIPTS / "house_trace.py", host]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert "runtime/executions/inbox.py" in found["files"]
    folders = {file.split("/")[0] for file in found["files"]}
    assert ("api" in folders) == (host == "cluster")
    assert "dsl/parse/steps.py" not in found["files"], "the start is not part of it"
    assert len(found["files"]) <= found["changes"] + 1 <= found["calls"]


# -- figures of files ---------------------------------------------------------------


def test_a_small_module_counts_if_one_module_imports_it(tree: Tree) -> None:
    name = "small modules with one importer"
    tree.write("a.py", "from noetl.parts.b import X\n")
    tree.write("parts/b.py", "X = 1\n")
    assert tree.details(name) == ["parts/b.py: imported by a alone"]
    tree.write("c.py", "def f():\n    from noetl.parts import b\n    return b\n")
    assert tree.details(name) == []


def test_a_large_module_with_one_importer_does_not_count(tree: Tree) -> None:
    tree.write("a.py", "import noetl.b\n")
    tree.write("b.py", "X = 1\n" * 46)
    assert tree.figures()["small modules with one importer"] == 0
    tree.write("b.py", "X = 1\n" * 45)
    assert tree.figures()["small modules with one importer"] == 1


def test_a_name_that_a_package_exports_is_imported_from_its_module(tree: Tree) -> None:
    name = "small modules with one importer"
    tree.write("ports/__init__.py", "from noetl.ports.lease import Lease\n")
    tree.write("ports/lease.py", "class Lease: ...\n")
    assert tree.details(name) == ["ports/lease.py: imported by ports alone"]
    tree.write("a.py", "from noetl.ports import Lease\n")
    assert tree.details(name) == []


def test_verbs_and_packages_do_not_fill_a_folder(tree: Tree) -> None:
    tree.write("commands/__init__.py", "")
    for name in ("run", "show"):
        tree.write(f"commands/{name}.py", "def command(): ...\n")
    assert tree.figures()["modules in the largest folder"] == 1
    for name in ("table", "progress"):
        tree.write(f"commands/{name}.py", "X = 1\n")
    assert tree.figures()["modules in the largest folder"] == 2
    assert tree.figures()["modules"] == 6


def test_a_missing_orchestrator_is_reported(tree: Tree) -> None:
    (tree.folder / "runtime" / "orchestrator.py").rename(tree.folder / "moved.py")
    with pytest.raises(SystemExit, match=r"orchestrator\.py is missing"):
        tree.figures()


def test_a_figure_above_its_bound_fails_and_is_named(
    house: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    most = house.BOUNDS["modules"].most
    assert house.report([house.Figure("modules", most, ["a.py"])]) == 0
    assert "a.py" not in capsys.readouterr().out
    assert house.report([house.Figure("modules", most + 1, ["a.py"])], details=True)
    shown = capsys.readouterr()
    assert f"house: modules: {most + 1}, expected at most {most}" in shown.err
    assert "a.py" in shown.out


# -- figures of prose ---------------------------------------------------------------


def test_docstrings_comments_and_messages_are_separated(prose: ModuleType) -> None:
    source = (
        '"""Module."""\n'
        "# One block\n# of two lines.\n"
        "X = 1  # beside it  # noqa: E501\n"
        '"""Attribute."""\n'
        "# type: ignore[misc]\n"
        "def f(x):\n"
        '    """Function."""\n'
        "    raise ValueError(f\"{x['key']} is no key\")\n"
    )
    found = [text[1:] for text in prose.read_texts(source, ast.parse(source))]
    assert found == [
        ("docstring", "Module."),
        ("comment", "One block of two lines."),
        ("comment", "beside it # noqa: E501"),
        ("docstring", "Attribute."),
        ("docstring", "Function."),
        ("string", "key"),
        ("string", "{} is no key"),
    ]


@pytest.mark.parametrize(("idiom", "text"), EXAMPLES)
def test_each_idiom_is_found(prose: ModuleType, idiom: str, text: str) -> None:
    assert prose.Text(1, "docstring", text).idioms() == [idiom]


def test_every_idiom_has_an_example(prose: ModuleType) -> None:
    assert {idiom for idiom, _ in EXAMPLES} == set(prose.IDIOMS)


@pytest.mark.parametrize(
    "text",
    [
        PLAIN,
        "Often there is no lease, and the worker is no longer asked.",
        "There are no more events than this, and the answer is no or an error.",
        "Raised if the body is over the limit, or is over 16 MiB.",
        "The token has so many random bits that a guess fails.",
        "Tell one worker from another; the log says which.",
        "Whatever the playbook says, somewhere a body is sent.",
        "PostgreSQL runs as the account 'nobody'.",
    ],
)
def test_plain_english_has_no_idiom(prose: ModuleType, text: str) -> None:
    assert prose.Text(1, "docstring", text).idioms() == []


@pytest.mark.parametrize(
    ("text", "count"),
    [("'x' is no address", 1), ("anybody", 0), ("What is over", 0)],
)
def test_messages_are_held_to_the_idioms_that_readers_meet(
    tree: Tree, text: str, count: int
) -> None:
    tree.write("a.py", f"X = {text!r}\n")
    assert tree.figures()["messages and other strings with a banned idiom"] == count


def test_the_share_is_that_of_docstrings_and_comments(tree: Tree) -> None:
    name = "docstrings and comments with a banned idiom, %"
    tree.write(
        "a.py", f'"""{PLAIN}"""\n# Nobody asks, somebody must.\nX = "nobody is"\n'
    )
    assert tree.figures()[name] == 33.3
    assert tree.details(name) == ["a.py:2: somebody: Nobody asks, somebody must."]


@pytest.mark.parametrize(
    "name",
    [
        "test_whoever_waits_gets_the_result",
        "test_a_long_call_holds_nobody_up",
        "test_an_end_is_heard",
        "test_mistakes_are_told",
        "test_what_is_no_key",
        "test_the_front_door_is_light",
    ],
)
def test_a_banned_word_in_the_name_of_a_test_counts(tree: Tree, name: str) -> None:
    tree.write("api/test_a.py", f"import os\n\nasync def {name}():\n    ...\n")
    assert tree.details("names of tests with a banned word") == [
        f"api/test_a.py:3: {name}"
    ]


@pytest.mark.parametrize(
    "name",
    [
        "test_there_is_no_sink",
        "test_a_branch_is_no_longer_waited_for",
        "test_an_indoor_bellhop_rolls",
        "make_somebody",
    ],
)
def test_a_plain_name_of_a_test_does_not_count(tree: Tree, name: str) -> None:
    tree.write("api/test_a.py", f"def {name}(): ...\n")
    assert tree.details("names of tests with a banned word") == []
