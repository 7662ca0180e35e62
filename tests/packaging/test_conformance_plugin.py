"""The plugin that ties tests to the checklist, run on small suites of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from conformance import Checklist

PAGE = """\
# Checklist

## VAL — rejected

- **VAL-01** Duplicate step names. (MUST · 000 §13)
- **VAL-02** Arc to a step (of this playbook) that does not exist. (MUST · 000 §13)
- **VAL-03** A nicety. (SHOULD · 000 §13)
- ~~**VAL-04** Once required. (MUST · 000 §13)~~

## LEG-CASE — legacy

- **LEG-CASE-01** Branches. (MUST · 003 §1)

## Conflicts

| id | topic | what each says | decision |
|---|---|---|---|
| C-01 | Legacy | yes, no | off |

## Silent points

- **S-01** Switch — off (by default).
"""

SUITE = """\
import pytest

@pytest.mark.spec("VAL-01", "C-01")
def test_function():
    pass

@pytest.mark.spec("LEG-CASE-01")
class TestClass:
    def test_method(self):
        pass

CASES = {"arc": ["VAL-02"], "both": ["VAL-03", "S-01"], "none": []}

@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.spec(id_) for id_ in ids], id=name)
     for name, ids in CASES.items()],
)
def test_golden(name):
    pass

def test_plain():
    pass
"""

# Two exit codes: alone, pytest stops at once; with workers it runs the tests as well.
FAILED = (pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.INTERRUPTED)
ALL = ["VAL-01", "VAL-02", "VAL-03", "LEG-CASE-01", "C-01", "S-01"]


@pytest.fixture
def project(pytester: pytest.Pytester) -> pytest.Pytester:
    plugins = Path(__file__).parents[1] / "support"
    pytester.makefile(".md", page=PAGE)
    pytester.makeini(
        f"[pytest]\npythonpath = {plugins}\nconformance_page = page.md\n"
        "addopts = --strict-markers\nmarkers = spec(*ids): rows\n"
    )
    pytester.makeconftest('pytest_plugins = ["conformance"]')
    return pytester


def run(project: pytest.Pytester, *args: str) -> pytest.RunResult:
    in_process = "-n" not in args
    start = project.runpytest_inprocess if in_process else project.runpytest_subprocess
    return start("-p", "no:cacheprovider", *args)


@pytest.mark.parametrize(
    "args",
    [
        pytest.param(["--collect-only", "-qq"], id="collection only"),
        pytest.param([], id="a run"),
        pytest.param(["-n", "2"], id="a run on two workers"),
        pytest.param(["-k", "plain"], id="a run of a selection"),
    ],
)
def test_the_matrix_names_the_files_that_prove_each_row(
    project: pytest.Pytester, args: list[str]
) -> None:
    project.makepyfile(test_suite=SUITE)

    result = run(project, "--conformance", "matrix.md", *args)

    assert result.ret == 0
    rows = (project.path / "matrix.md").read_text().splitlines()
    for id_ in ALL:
        (row,) = [row for row in rows if row.startswith(f"| {id_} |")]
        assert row.endswith("| `test_suite.py` |")
    result.stdout.fnmatch_lines(["VAL * 3 * 3", "all * 6 * 6", "written: matrix.md"])


def test_rows_without_a_test_are_listed_as_missing(project: pytest.Pytester) -> None:
    project.makepyfile("def test_nothing(): pass")

    result = run(project, "--conformance", "matrix.md")

    result.stdout.fnmatch_lines(["VAL * 3 * 0  01-02", "S * 1 * 0  01"])
    assert "| VAL-03 | SHOULD | |\n" in (project.path / "matrix.md").read_text()


@pytest.mark.parametrize(
    ("mark", "message"),
    [
        pytest.param(
            'spec("VAL-1")',
            "unknown requirement 'VAL-1'; did you mean 'VAL-01'?",
            id="misspelt",
        ),
        pytest.param('spec("VAL-04")', "VAL-04 is retired", id="retired"),
        pytest.param("spec()", "the mark spec names no id", id="empty"),
        pytest.param("spec(1)", "unknown requirement 1", id="not a string"),
    ],
)
def test_a_wrong_mark_fails_the_run(
    project: pytest.Pytester, mark: str, message: str
) -> None:
    project.makepyfile(
        test_suite=f"import pytest\n@pytest.mark.{mark}\ndef test_it(): pass\n"
    )

    result = run(project)

    assert result.ret in FAILED
    result.stdout.fnmatch_lines([f"test_suite.py::test_it: {message}"])


@pytest.mark.parametrize("workers", [[], ["-n", "2"]], ids=["alone", "two workers"])
def test_required_groups_need_a_test_for_each_binding_row(
    project: pytest.Pytester, workers: list[str]
) -> None:
    project.makepyfile(
        'import pytest\n@pytest.mark.spec("VAL-01")\ndef test_it(): pass\n'
    )

    result = run(project, *workers, "--require-groups", "VAL,S")

    assert result.ret in FAILED
    result.stdout.fnmatch_lines(
        [
            "no test proves VAL-02 (MUST): Arc to a step (of this playbook) that*",
            "no test proves S-01 (DECIDED): *",
        ]
    )
    result.stdout.no_fnmatch_line("*VAL-03*")


def test_required_groups_pass_when_covered(project: pytest.Pytester) -> None:
    project.makepyfile(SUITE)

    assert run(project, "--require-groups", "VAL,LEG-CASE,C,S").ret == 0


def test_an_unknown_required_group_is_an_error(project: pytest.Pytester) -> None:
    project.makepyfile(SUITE)

    result = run(project, "--require-groups", "VALL")

    assert result.ret in FAILED
    result.stdout.fnmatch_lines(["*no group 'VALL'; known: VAL, LEG-CASE, C, S"])


@pytest.mark.parametrize("mark", ["skip", "xfail"])
def test_a_test_that_is_not_expected_to_pass_proves_nothing(
    project: pytest.Pytester, mark: str
) -> None:
    project.makepyfile(
        f'import pytest\n@pytest.mark.{mark}\n@pytest.mark.spec("LEG-CASE-01")\n'
        "def test_it(): assert False\n"
    )

    result = run(project, "--require-groups", "LEG-CASE")

    result.stdout.fnmatch_lines(["no test proves LEG-CASE-01*"])


def test_a_stale_matrix_fails_the_check(project: pytest.Pytester) -> None:
    project.makepyfile(SUITE)
    run(project, "--collect-only", "--conformance", "matrix.md")

    assert run(project, "--conformance-check", "matrix.md").ret == 0
    project.makepyfile(
        test_more='import pytest\n@pytest.mark.spec("S-01")\ndef test_it(): pass\n'
    )
    result = run(project, "--conformance-check", "matrix.md")

    assert result.ret in FAILED
    result.stdout.fnmatch_lines(["matrix.md is out of date; run: make conformance"])


def test_the_tests_of_one_row_can_be_run_alone(project: pytest.Pytester) -> None:
    project.makepyfile(SUITE)

    run(project, "--spec", "VAL-02,C-01").assert_outcomes(passed=2, deselected=4)


def test_the_checklist_of_this_repository_is_read_in_full(
    pytestconfig: pytest.Config,
) -> None:
    checklist = Checklist.read(pytestconfig.rootpath / "docs/reference/conformance.md")
    sizes = {group: len(rows) for group, rows in checklist.groups().items()}

    assert len(sizes) == 35
    assert sum(sizes.values()) >= 495
    assert (sizes["ROOT"], sizes["VAL"], sizes["C"], sizes["S"]) >= (10, 24, 44, 71)
