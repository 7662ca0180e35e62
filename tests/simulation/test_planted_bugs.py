"""The simulation notices bugs that are put into the protocol on purpose."""

from __future__ import annotations

import pytest
from simulator.bugs import BUGS
from simulator.campaign import find, minimize
from simulator.patching import Patch
from simulator.plan import Options, make_plan
from simulator.run import run_seed

WITHIN = 600
"""Seeds within which each bug must be noticed."""


@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.name)
def test_a_planted_bug_is_noticed(bug):
    found = find(bug, range(WITHIN))

    assert found is not None, f"{WITHIN} seeds do not show it"
    assert run_seed(found.options).violations == [], "the seed fails without the bug"


def test_there_are_enough_bugs_and_half_of_them_were_held_back():
    held_back = [bug for bug in BUGS if bug.held_back]

    assert len(BUGS) >= 25
    assert len({bug.name for bug in BUGS}) == len(BUGS)
    assert len(held_back) >= 13


def test_a_failing_run_is_made_smaller():
    [bug] = [bug for bug in BUGS if bug.name == "request key ignored"]
    failing = find(bug, range(50))
    assert failing is not None

    smaller = minimize(failing, bug)

    assert smaller.violations[0][0] == failing.violations[0][0]
    faults = make_plan(smaller.options).faults
    assert len(faults) < len(make_plan(Options(failing.options.seed)).faults)


def test_a_patch_is_taken_back():
    class Owner:
        name = "before"

    with Patch() as patch:
        patch.set(Owner, "name", "after")
        patch.set(Owner, "other", 1)
        assert Owner.name == "after"

    assert Owner.name == "before"
    assert not hasattr(Owner, "other")
