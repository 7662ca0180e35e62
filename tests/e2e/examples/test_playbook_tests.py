"""The examples' own tests: they pass, they see everything, and they can fail."""

from __future__ import annotations

import functools
import json
import random
from pathlib import Path

import pytest
import yaml
from campaign import within
from demo_api import EXAMPLES, Noetl
from mutations import Mutant, mutants

from noetl import load
from noetl.dsl.model import Playbook
from noetl.engine.tasks.outcome import Failure
from noetl.testing.model import Suite
from noetl.testing.parse import parse_suite
from noetl.testing.run_case import Trial
from noetl.testing.verdict import Verdict, judge_case

# Those of a dialect are run as they are by tests/e2e/test_classic.py: what a mutation
# would change is not what is executed.
PLAYBOOKS = sorted(
    path
    for path in EXAMPLES.rglob("*.yaml")
    if ".test" not in path.suffixes and path.parent.name != "classic"
)


SHARDS = 8
SHARE_S = 0.5
"""Seconds of each shard; ``make nightly`` breaks every rule and arc."""

EQUIVALENT = dict.fromkeys(
    (
        "agent: arc converse → report (1): unguarded",
        "approval: arc ask_clerk → refuse (2): unguarded",
        "approval: arc ask_manager → refuse (2): unguarded",
        "break: arc start → send (1): unguarded",
        "cheapest_hotel: arc read_hotels → choose (1): unguarded",
        "countdown: arc count → lift_off (1): unguarded",
        "fan_out_fan_in: arc count_cities → report (1): unguarded",
        "fan_out_fan_in: arc ask_the_machine → report (1): unguarded",
        "fan_out_fan_in: arc find_order → report (1): unguarded",
        "hotels: arc read_cities → read_hotels (1): unguarded",
        "hotels: arc read_hotels → report (1): unguarded",
        "orders: arc fetch → price (1): unguarded",
        "orders: arc price → report (1): unguarded",
        "postgres_etl: arc load → summarize (1): unguarded",
        "quantum_sweep: arc sweep → choose (1): unguarded",
        "rooms: arc read_cities → list_hotels (1): unguarded",
        "rooms: arc list_hotels → read_rooms (1): unguarded",
        "rooms: arc read_rooms → report (1): unguarded",
        "sub_playbooks: arc ask → add_up (1): unguarded",
    ),
    # S-32: an arc whose args cannot be rendered does not fire.
    "its args read what only a success has: after a failure it cannot fire anyway",
) | dict.fromkeys(
    (
        "continue: start.fetch rule 2: never",
        "hotels: read_hotels.fetch rule 3: never",
        "pages_to_duckdb: read_orders.fetch rule 2: never",
        "pagination: read_orders.fetch rule 3: never",
        "rooms: read_rooms.fetch rule 3: never",
    ),
    # An error of a rule's template comes after that of the call.
    "the next rule reads what only a success has: it fails with the error of the call",
)
"""Mutants that behave as the example does, and why no test can tell them apart."""


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


@functools.cache
def find(path: str, version: str | None) -> Playbook | Failure:
    """A child, among the examples."""
    for file in PLAYBOOKS:
        document = yaml.safe_load(file.read_text())
        if document["metadata"]["path"] == path:
            return read(document)
    return Failure("playbook.not_found", f"there is no '{path}'")


def first_failure(suite: Suite, playbook: Playbook) -> Verdict | None:
    """The quick schedule of all cases first: it finds nearly everything."""
    trials = [Trial(case, playbook, find) for case in suite.cases]
    for trial, schedules in (
        *((trial, 1) for trial in trials),
        *((trial, trial.case.schedules) for trial in trials),
    ):
        verdict = judge_case(trial, range(schedules))
        if not verdict.passed:
            return verdict
    return None


def read(document: object) -> Playbook:
    loaded = load(json.dumps(document))
    assert loaded.playbook is not None, loaded.diagnostics
    return loaded.playbook


@functools.cache
def broken() -> list[tuple[Path, Mutant]]:
    return [
        (suite_of(path), mutant)
        for path in PLAYBOOKS
        for mutant in mutants(yaml.safe_load(path.read_text()))
    ]


def name_of(path: Path, mutant: Mutant) -> str:
    return f"{path.name.partition('.')[0]}: {mutant.name}"


@pytest.mark.parametrize("shard", range(SHARDS))
def test_a_broken_rule_or_arc_is_found_by_them(shard: int) -> None:
    cases = broken()[shard::SHARDS]
    random.shuffle(cases)

    for tests, mutant in within(SHARE_S, cases, least=2):
        check_that_it_is_found(tests, mutant)


def check_that_it_is_found(tests: Path, mutant: Mutant) -> None:
    suite, _ = parse_suite(tests.read_bytes())
    assert suite is not None

    name, verdict = name_of(tests, mutant), first_failure(suite, read(mutant.document))

    if name in EQUIVALENT:
        assert verdict is None, f"{name}: a test can tell: strike it off the list"
        return
    assert verdict is not None, f"{name}: every test passes, although it is broken"
    fault = verdict.faults[0]
    if fault.expectation == "end":
        assert "the run did not finish" in fault.message
    elif fault.expectation != "tasks":  # a task that nobody expected to be called
        assert fault.message == (
            f"{fault.path}: expected {fault.expected}, found {fault.found}"
        )
        assert fault.expected != fault.found
    assert fault.log, "the log says why"


def test_the_list_of_equivalent_mutants_names_real_ones() -> None:
    found = {
        name_of(path, mutant): mutant
        for path in PLAYBOOKS
        for mutant in mutants(yaml.safe_load(path.read_text()))
    }

    assert EQUIVALENT.keys() <= found.keys()


def test_unbroken_they_find_nothing() -> None:
    for path in PLAYBOOKS:
        suite, _ = parse_suite(suite_of(path).read_bytes())
        assert suite is not None
        assert first_failure(suite, read(yaml.safe_load(path.read_text()))) is None
