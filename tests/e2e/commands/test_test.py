"""``noetl test`` as its user sees it: what it finds, prints and returns."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from xml.etree.ElementTree import fromstring

import pytest

from noetl.commands.test import RealPython

Run = Callable[..., subprocess.CompletedProcess[str]]

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: tests/t}\n"
PLAYBOOK = HEAD + "workflow:\n  - step: start\n    tool: {kind: http, url: u}\n"
GOOD = "cases:\n  - {name: good, tasks: {start: {result: 1}}, expect: {result: 1}}\n"
BAD = "cases:\n  - {name: bad, tasks: {start: {result: 1}}, expect: {result: 2}}\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.yaml").write_text(PLAYBOOK)
    (tmp_path / "a.test.yaml").write_text(GOOD)
    return tmp_path


def test_a_folder_is_searched_for_tests(noetl: Run, folder: Path) -> None:
    (folder / "deep").mkdir()
    (folder / "deep" / "b.yml").write_text(PLAYBOOK)
    (folder / "deep" / "b.test.yml").write_text(GOOD)
    done = noetl("test", str(folder))

    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[0] == f"{folder}/a.test.yaml: 1 passed (1 run)"
    assert lines[1] == f"{folder}/deep/b.test.yml: 1 passed (1 run)"
    assert lines[2].startswith("passed: 2 cases; 2 runs in ")


@pytest.mark.parametrize("name", ["a.yaml", "a.test.yaml"])
def test_a_playbook_stands_for_its_tests(noetl: Run, folder: Path, name: str) -> None:
    done = noetl("test", str(folder / name))

    assert done.returncode == 0
    assert "a.test.yaml: 1 passed" in done.stdout


def test_the_playbook_can_be_named(noetl: Run, folder: Path) -> None:
    (folder / "other.test.yaml").write_text(f"playbook: a.yaml\n{GOOD}")

    assert noetl("test", str(folder / "other.test.yaml")).returncode == 0


def test_a_failure_is_exit_1_and_the_rest_runs(noetl: Run, folder: Path) -> None:
    (folder / "b.test.yaml").write_text(f"playbook: a.yaml\n{BAD}")
    done = noetl("test", str(folder))

    assert done.returncode == 1
    assert "result: expected 2, found 1" in done.stdout
    assert "a.test.yaml: 1 passed" in done.stdout
    assert "failed: 2 cases, 1 failed; 2 runs in " in done.stdout


@pytest.mark.parametrize(
    ("files", "arguments", "words"),
    [
        pytest.param({}, ["."], "no test file (*.test.yaml) in .", id="no tests"),
        pytest.param({}, ["no.test.yaml"], "no such file", id="a missing file"),
        pytest.param(
            {"x.yaml": PLAYBOOK}, ["x.yaml"], "x.yaml has no tests", id="untested"
        ),
        pytest.param(
            {"x.test.yaml": GOOD},
            ["."],
            "its playbook x.yaml: no such",
            id="no playbook",
        ),
        pytest.param(
            {"x.tests": GOOD}, ["x.tests"], "its playbook is unknown", id="no name"
        ),
        pytest.param(
            {"a.yaml": PLAYBOOK, "a.test.yaml": GOOD},
            [".", "-k", "nothing"],
            "no case with 'nothing' in its name",
            id="no such case",
        ),
        pytest.param({}, ["--seed", "-1", "."], "-1", id="a wrong option"),
    ],
)
def test_a_wrong_call_is_exit_2_and_one_line(
    noetl: Run,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    files: dict[str, str],
    arguments: list[str],
    words: str,
) -> None:
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    monkeypatch.chdir(tmp_path)
    done = noetl("test", *arguments)

    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.test.yaml", "cases: [{nam: x}]", "unknown key 'nam' in a case"),
        ("a.test.yaml", GOOD.replace("start", "strat"), "has no task 'strat'"),
        ("a.yaml", PLAYBOOK.replace("tool", "tol"), "unknown key 'tol' in a step"),
    ],
)
def test_a_wrong_file_is_exit_2_with_its_diagnostics(
    noetl: Run, folder: Path, name: str, text: str, words: str
) -> None:
    (folder / name).write_text(text)
    people, program = noetl("test", str(folder)), noetl("test", str(folder), "--json")
    (file,) = json.loads(program.stdout)["files"]

    assert (people.returncode, program.returncode) == (2, 2)
    assert words in people.stdout
    assert f"{folder}/{name}: invalid: " in people.stdout
    assert (file["valid"], file["cases"]) == (False, [])
    assert any(words in each["message"] for each in file["diagnostics"])
    assert {each["file"] for each in file["diagnostics"]} == {f"{folder}/{name}"}


def test_cases_are_chosen_by_their_names(noetl: Run, folder: Path) -> None:
    (folder / "a.test.yaml").write_text(GOOD + BAD.removeprefix("cases:\n"))

    assert noetl("test", str(folder), "-k", "GOO").returncode == 0
    assert noetl("test", str(folder), "-k", "bad").returncode == 1


RACE = (
    HEAD
    + """
workflow:
  - {step: s, next: {spec: {mode: inclusive}, arcs: [{step: a}, {step: b}]}}
  - {step: a, tool: {kind: noop}}
  - {step: b, tool: {kind: noop}}
"""
)


def test_a_schedule_is_repeated_by_its_seed(noetl: Run, folder: Path) -> None:
    (folder / "a.yaml").write_text(RACE)
    case = "{name: x, schedules: 50, expect: {events: [{name: step.done, step: a}, "
    text = f"cases: [{case}{{name: step.done, step: b}}]}}}}]"
    (folder / "a.test.yaml").write_text(text)
    (file,) = json.loads(noetl("test", str(folder), "--json").stdout)["files"]
    (found,) = file["cases"]
    seed = found["seed"]

    assert found["passed"] is False
    assert seed > 0
    assert noetl("test", str(folder), "--seed", "0").returncode == 0
    again = noetl("test", str(folder), "--seed", str(seed))
    assert again.returncode == 1
    assert f"under schedule {seed} (repeat it with --seed {seed})" in again.stdout
    assert "(1 run)" in again.stdout


def test_the_document(noetl: Run, folder: Path) -> None:
    (folder / "a.test.yaml").write_text(GOOD + BAD.removeprefix("cases:\n"))
    done = noetl("test", str(folder), "--json", "--coverage")
    document = json.loads(done.stdout)

    assert (done.returncode, done.stderr) == (1, "")
    assert (document["passed"], document["failed"], document["runs"]) == (1, 1, 2)
    (file,) = document["files"]
    assert file["file"] == f"{folder}/a.test.yaml"
    assert file["playbook"] == f"{folder}/a.yaml"
    good, bad = file["cases"]
    assert (good["name"], good["passed"], good["differences"]) == ("good", True, [])
    (difference,) = bad["differences"]
    assert difference == {
        "expectation": "result",
        "message": "result: expected 2, found 1",
        "path": "result",
        "expected": "2",
        "found": "1",
        "line": 3,
        "column": 63,
        "hint": None,
        "log": difference["log"],
    }
    assert "start.task_1: ok 1 → continue (it has no rules)" in difference["log"][0]
    assert document["coverage"]["tests/t"]["steps"] == {"covered": 1, "total": 1}


def test_coverage_is_a_table_with_what_is_missing(noetl: Run, folder: Path) -> None:
    done = noetl("test", str(folder), "--coverage")
    assert "tests/t        1/1      0/0      0/0\n" in done.stdout

    (folder / "a.yaml").write_text(RACE + "  - {step: c, next: {arcs: [{step: a}]}}\n")
    (folder / "a.test.yaml").write_text("cases: [{name: x, expect: {}}]")
    done = noetl("test", str(folder), "--coverage")
    assert "tests/t        3/4      2/3      0/0\n" in done.stdout
    assert "  never: tests/t, line 9: step c\n" in done.stdout
    assert "  never: tests/t, line 9: arc c → a\n" in done.stdout


def test_junit_is_written_beside_the_output(noetl: Run, folder: Path) -> None:
    (folder / "b.test.yaml").write_text(f"playbook: a.yaml\n{BAD}")
    target = folder / "results.xml"
    done = noetl("test", str(folder), "--junit", str(target))
    suites = fromstring(target.read_text())

    assert done.returncode == 1
    assert [suite.attrib["failures"] for suite in suites] == ["0", "1"]


def test_a_place_that_cannot_be_written_is_exit_2(noetl: Run, folder: Path) -> None:
    done = noetl("test", str(folder), "--junit", str(folder / "no" / "x.xml"))

    assert done.returncode == 2
    assert "x.xml: cannot be written: " in done.stderr


def test_children_are_found_in_the_folder(noetl: Run, folder: Path) -> None:
    parent = "  - step: s\n    tool: {kind: playbook, path: tests/c}\n"
    (folder / "a.yaml").write_text(HEAD + "workflow:\n" + parent)
    head = HEAD.replace("tests/t", "tests/c, version: '%s'")
    for number in ("1.9", "1.10"):
        body = f"workflow: [{{step: s, tool: {{kind: noop, result: '{number}'}}}}]"
        (folder / f"c{number}.yaml").write_text(head % number + body)
    (folder / "a.test.yaml").write_text("cases: [{name: x, expect: {result: '1.10'}}]")
    done = noetl("test", str(folder / "a.test.yaml"))
    assert done.returncode == 0, done.stdout

    for number in ("1.9", "1.10"):
        (folder / f"c{number}.yaml").write_text(head % number + "workflow: []")
    text = "cases: [{name: x, expect: {error: playbook.invalid}}]"
    (folder / "a.test.yaml").write_text(text)
    done = noetl("test", str(folder / "a.test.yaml"))
    assert done.returncode == 0, done.stdout


def test_a_secret_in_an_answer_is_not_printed(noetl: Run, folder: Path) -> None:
    token = "ghp_" + "a1B2" * 9
    (folder / "a.test.yaml").write_text(BAD.replace("result: 1", f"result: {token}"))
    for flags in ((), ("--json",), ("--junit", str(folder / "x.xml"))):
        done = noetl("test", str(folder), *flags)
        assert done.returncode == 1
        assert token[:12] not in done.stdout + done.stderr
    assert token[:12] not in (folder / "x.xml").read_text()


CODE = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: code, path: tests/code}
workload: {n: 1}
workflow:
  - step: start
    tool:
      kind: python
      module: helping
      function: turn
      args: {n: "{{ workload.n }}"}
      spec: {timeout: 500ms}
"""
REAL = """\
tasks: {start: {real: true}}
cases:
  - {name: it returns, expect: {result: 10}}
  - name: it raises
    workload: {n: 0}
    expect: {status: failed, error: tool.exception}
  - name: it never ends
    workload: {n: -1}
    expect: {status: failed, error: timeout}
"""
HELPING = """\
def turn(n):
    while n < 0:
        pass
    return 10 // n
"""


def test_python_code_is_called_in_a_process(noetl: Run, folder: Path) -> None:
    (folder / "code.yaml").write_text(CODE)
    (folder / "code.test.yaml").write_text(REAL)
    (folder / "helping.py").write_text(HELPING)

    done = noetl("test", str(folder / "code.test.yaml"))

    assert done.returncode == 0, done.stdout
    assert f"{folder}/code.test.yaml: 3 passed (3 runs)" in done.stdout


def test_a_real_call_has_a_limit_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("noetl.commands.test.REAL_S", 0.2)
    endless: Any = SimpleNamespace(
        task=SimpleNamespace(label="turn"),
        inputs={"code": "while True: pass"},
        spec={"timeout": 60},
        action_id="a",
        attempt=1,
    )
    python = RealPython()
    try:
        outcome = python.call(".", endless)
    finally:
        python.close()

    assert outcome.error is not None
    assert outcome.error.kind == "timeout"


def test_a_kind_that_no_test_calls_cannot_be_real(noetl: Run, folder: Path) -> None:
    (folder / "a.test.yaml").write_text(REAL)

    done = noetl("test", str(folder / "a.test.yaml"))

    assert done.returncode == 2
    assert "kind http cannot run in a test" in done.stdout + done.stderr
    assert "noop, playbook, python, wait" in done.stdout + done.stderr
