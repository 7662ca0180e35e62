"""The pytest plug-in, in a project of its own: cases as tests, and its fixtures."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
TESTS = """
def test_a_run(noetl_run, noetl_home):
    assert noetl_run("hello.yaml", {"name": "Ada"}).result == "Hello, Ada!"
    assert (noetl_home / "log.db").exists()

def test_a_server(noetl_server):
    path = noetl_server.register("hello.yaml")["path"]
    assert noetl_server.exec(path, wait=True, timeout=60).status == "completed"

def test_a_script(scripted_tools):
    scripted_tools("hello.yaml", tasks={"greet": {"result": "a"}},
                   expect={"result": "a"})

def test_another_script(scripted_tools):
    scripted_tools("hello.yaml", tasks={"greet": {"result": "a"}},
                   expect={"result": "b"})
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in ("hello.yaml", "hello.test.yaml"):
        shutil.copy(EXAMPLES / name, tmp_path)
    return tmp_path


def run_pytest(project: Path, *words: str) -> str:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *words]
    done = subprocess.run(
        command, cwd=project, capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


def test_cases_and_fixtures_are_tests_of_a_project(project: Path) -> None:
    (project / "test_all.py").write_text(TESTS)
    cases = project / "hello.test.yaml"
    cases.write_text(cases.read_text().replace("Hello, Ada!", "Hello, Adam!"))

    said = run_pytest(project, "-q", "-rA")

    assert "5 passed" in said, said
    assert "2 failed" in said
    assert 'expected "Hello, Adam!", found "Hello, Ada!"' in said
    assert 'result: expected "b", found "a"' in said
    assert "PASSED hello.test.yaml::without a greeting it fails" in said


def test_one_case_is_chosen_and_a_broken_file_says_where(project: Path) -> None:
    assert "1 passed, 2 deselected" in run_pytest(
        project, "-k", "greeted and not world"
    )
    (project / "hello.test.yaml").write_text("cases:\n  - nme: x\n")

    said = run_pytest(project)

    assert "hello.test.yaml:2:5: error: " in said
    assert "1 error" in said
    assert "Traceback" not in said
