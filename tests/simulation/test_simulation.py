"""Servers and workers on virtual time: what must hold, whatever goes wrong."""

from __future__ import annotations

import os
import runpy
import subprocess
import sys
from pathlib import Path

import pytest
from simulator.campaign import SOMETIMES, describe, minimize, run_seeds
from simulator.plan import Options, make_plan
from simulator.run import run_seed

HERE = Path(__file__).parent
SCRIPT = runpy.run_path(str(HERE.parents[1] / "scripts/simulate.py"))
SEEDS = 5000
CHUNKS = 10
KEPT = [
    line.partition("#")[0].strip()
    for line in (HERE / "kept_seeds.txt").read_text().splitlines()
    if not line.startswith("#")
]
TRACES = """
import sys
sys.path[:0] = {paths!r}
from simulator.plan import Options
from simulator.run import run_seed
print([run_seed(Options(seed)).trace for seed in range(60)])
"""


@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_whatever_goes_wrong_every_invariant_holds(chunk):
    each = SEEDS // CHUNKS
    tally = run_seeds(range(chunk * each, (chunk + 1) * each))

    assert [describe(minimize(failure)) for failure in tally.failures] == []
    assert tally.missing == [], "faults that these seeds did not bring about"


@pytest.mark.parametrize("seed", range(20))
def test_every_invariant_holds_in_a_single_seed(seed):
    result = run_seed(Options(seed))

    assert result.violations == [], describe(result)


@pytest.mark.parametrize("arguments", KEPT)
def test_a_seed_that_once_failed_does_not_fail_again(arguments):
    options = Options.read(arguments)

    assert Options.read(options.command()) == options
    assert run_seed(options).violations == []


def test_a_seed_repeats_a_run_exactly_under_another_hash_seed():
    paths = [str(HERE), str(HERE.parent / "support")]
    program = TRACES.format(paths=paths)
    traces = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]

    assert traces[0] == traces[1]


def test_other_seeds_are_other_runs():
    assert len({run_seed(Options(seed)).trace for seed in range(20)}) == 20


def test_leaving_out_a_fault_changes_no_other_fault():
    whole = make_plan(Options(7)).faults
    rest = make_plan(Options(7, skip=frozenset({0}))).faults

    assert len(whole) == len(rest) + 1
    assert set(rest) < set(whole)


def test_a_plan_has_many_faults_of_many_kinds():
    plans = [make_plan(Options(seed)) for seed in range(500)]
    kinds = {fault.kind for plan in plans for fault in plan.faults}

    assert len(kinds) == 19
    assert sum(len(plan.faults) for plan in plans) > 4 * len(plans)


def test_what_must_happen_sometimes_is_missed_if_it_does_not_happen():
    assert run_seeds(range(1)).missing != []
    assert {
        *("fence", "steal", "poison", "fallback poll", "commit unknown"),
        *("duplicate report", "quarantine", "begun fork", "begun retry"),
    } <= set(SOMETIMES)


@pytest.mark.parametrize("missing", [None, *SOMETIMES])
def test_a_campaign_fails_in_which_something_never_happened(missing, capsys):
    """Also one that was stopped and goes on: the sum of its parts counts."""
    happened = dict.fromkeys(set(SOMETIMES) - {missing}, 1)
    parts = [happened, {"fence": 0 if missing == "fence" else 1}]
    lines = [
        {"seeds": 1, "seconds": 1.0, "events": 1, "failures": [], "happened": each}
        for each in parts
    ]

    assert SCRIPT["summarize"](lines, 0, 1.0) == (0 if missing is None else 1)
    assert (f"never happened: {missing}" in capsys.readouterr().out) == bool(missing)
