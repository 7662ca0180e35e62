"""The examples' own tests: they pass, they see everything, and they can fail."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from demo_api import EXAMPLES, Noetl
from mutations import Mutant, mutants

from noetl import load
from noetl.dsl.model import Playbook
from noetl.engine.outcome import Failure
from noetl.testing.model import Suite
from noetl.testing.parse import parse_suite
from noetl.testing.trial import Trial
from noetl.testing.verdict import Verdict, judge_case

PLAYBOOKS = sorted(
    path for path in EXAMPLES.rglob("*.yaml") if ".test" not in path.suffixes
)


def suite_of(playbook: Path) -> Path:
    return playbook.with_suffix(".test.yaml")


def test_every_example_has_tests() -> None:
    assert [path.name for path in PLAYBOOKS if not suite_of(path).exists()] == []


def test_they_pass_and_leave_no_step_arc_or_rule_out(noetl: Noetl) -> None:
    done = noetl("test", "examples", "--json", "--coverage")
    document = json.loads(done.stdout)

    assert (done.returncode, done.stderr) == (0, "")
    assert len(document["files"]) == len(PLAYBOOKS)
    assert document["failed"] == 0
    assert document["passed"] == sum(len(f["cases"]) for f in document["files"])
    for path, covered in document["coverage"].items():
        assert covered["missing"] == [], path


def find_nothing(path: str, version: str | None) -> Failure:
    return Failure("playbook.not_found", f"there is no '{path}'")


def first_failure(suite: Suite, playbook: Playbook) -> Verdict | None:
    for case in suite.cases:
        trial = Trial(case, playbook, find_nothing)
        verdict = judge_case(trial, range(case.schedules))
        if not verdict.passed:
            return verdict
    return None


def read(document: object) -> Playbook:
    loaded = load(yaml.safe_dump(document, sort_keys=False))
    assert loaded.playbook is not None, loaded.diagnostics
    return loaded.playbook


def broken() -> list[object]:
    return [
        pytest.param(suite_of(path), mutant, id=f"{path.stem}: {mutant.name}")
        for path in PLAYBOOKS
        for mutant in mutants(yaml.safe_load(path.read_text()))
    ]


@pytest.mark.parametrize(("tests", "mutant"), broken())
def test_a_broken_rule_or_arc_is_found_by_them(tests: Path, mutant: Mutant) -> None:
    suite, _ = parse_suite(tests.read_bytes())
    assert suite is not None

    verdict = first_failure(suite, read(mutant.document))

    assert verdict is not None, "every test passes, although it is broken"
    fault = verdict.faults[0]
    if fault.expectation == "end":
        assert "it came to no end" in fault.message
    elif fault.expectation != "tasks":  # a task that nobody expected to be called
        assert fault.message == (
            f"{fault.path}: expected {fault.expected}, found {fault.found}"
        )
        assert fault.expected != fault.found
    assert fault.log, "the log says why"


def test_unbroken_they_find_nothing() -> None:
    for path in PLAYBOOKS:
        suite, _ = parse_suite(suite_of(path).read_bytes())
        assert suite is not None
        assert first_failure(suite, read(yaml.safe_load(path.read_text()))) is None
