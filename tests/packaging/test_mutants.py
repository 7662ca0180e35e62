"""``scripts/mutate.py`` makes mutants of code, installs them, and keeps verdicts."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest

SCRIPTS = Path(__file__).parents[2] / "scripts"
CODE = '''
"""A module."""
import logging
from functools import cache

__all__ = ["LIMIT", "share"]
LIMIT = 3
logger = logging.getLogger(__name__)


@cache
def share(part: int, of: int | None = None) -> float:
    """Return a share."""
    if not of or part > of:
        raise ValueError("too large")
    logger.info("share", 1)
    return round(part / of, LIMIT)
'''


@pytest.fixture
def mutants(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(SCRIPTS))
    return importlib.import_module("mutants")


def test_mutants_of_a_module_are_its_small_mistakes(mutants: ModuleType) -> None:
    found = {m.name: m.describe() for m in mutants.Source("m.py", CODE).mutants}

    assert found == {
        "m.py:LIMIT:constant.1": "LIMIT = 3 → LIMIT = 4",
        "m.py:share:boolean.1": "not of or part > of → not of and part > of",
        "m.py:share:compare.1": "not of or part > of → not of or part >= of",
        "m.py:share:compare.2": "not of or part > of → not of or part <= of",
        "m.py:share:negate.1": "not of or part > of → not (not of or part > of)",
        "m.py:share:negate.2": "not of or part > of → not not of or part > of",
        "m.py:share:remove.1": "raise ValueError('too large') → pass",
        "m.py:share:remove.2": "return round(part / of, LIMIT) → return None",
        "m.py:share:arithmetic.1": "return round(part / of, LIMIT) → "
        "return round(part * of, LIMIT)",
        "m.py:share:swap.1": "return round(part / of, LIMIT) → "
        "return round(LIMIT, part / of)",
    }


def test_an_applied_mutant_is_taken_back(mutants: ModuleType) -> None:
    source = mutants.Source("m.py", CODE)
    before = mutants.ast.dump(source.tree)

    for mutant in source.mutants:
        undo = mutant.apply()
        assert mutants.ast.dump(source.tree) != before, mutant.name
        undo()
        assert mutants.ast.dump(source.tree) == before, mutant.name


def test_a_mutant_is_installed_into_the_functions_that_others_imported(
    mutants: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installing = importlib.import_module("mutant_tests")
    monkeypatch.setattr(installing, "PACKAGE", tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "mutated_shares.py").write_text(CODE)
    share = importlib.import_module("mutated_shares").share
    source = mutants.Source("mutated_shares.py", CODE)
    (mutant,) = (m for m in source.mutants if "arithmetic" in m.name)

    assert installing.Functions().install(source, mutant)
    assert share(3, 4) == 12
    assert not installing.Functions().install(source, source.mutants[0])


def test_a_scope_that_changes_loses_its_verdicts(
    mutants: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeping = importlib.import_module("mutant_verdicts")
    monkeypatch.setattr(keeping, "STORED", tmp_path / "verdicts.jsonl")
    monkeypatch.setattr(keeping, "FOLDER", tmp_path)
    path = "engine/ids.py"
    first = keeping.Verdicts({path: mutants.Source(path, CODE)})
    names = [f"{path}:LIMIT:constant.1", f"{path}:share:compare.1"]
    first.set(names[0], "k")
    first.set(names[1], "s")
    first.set(names[1], "k")
    first.save()

    changed = CODE.replace("LIMIT = 3", "\n\nLIMIT = 5")
    second = keeping.Verdicts({path: mutants.Source(path, changed)})
    assert [second.letters[name] for name in names] == [".", "K"]


def test_a_survivor_without_a_reason_and_a_low_score_are_wrong(
    mutants: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    keeping = importlib.import_module("mutant_verdicts")
    monkeypatch.setattr(keeping, "STORED", tmp_path / "none")
    path = "engine/ids.py"
    verdicts = keeping.Verdicts({path: mutants.Source(path, CODE)})
    one, two, *others = verdicts.letters
    verdicts.set(one, "s")
    verdicts.set(two, "n")
    for name in others:
        verdicts.set(name, "k")
    reasons = {one: "equivalent: nothing reads it", others[0]: "a sentence"}

    table, wrong = keeping.summarize(verdicts, reasons)
    wrong += keeping.stale(verdicts, reasons)

    assert "| engine | 10 | 10 | 8 | 0 | 1 | 1 | 88.9% |" in table
    assert wrong == [
        "engine: the score 88.9% is below 90%",
        f"{two}: survives without a reason",
        f"{others[0]}: has a reason and does not survive",
    ]


def test_the_interval_of_a_sample_is_that_of_wilson(mutants: ModuleType) -> None:
    keeping = importlib.import_module("mutant_verdicts")

    low, high = keeping.interval(90, 100, 10**9)

    assert (round(low, 3), round(high, 3)) == (0.826, 0.945)
    assert keeping.interval(90, 100, 100) == (0.9, 0.9)
