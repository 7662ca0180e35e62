"""Fuzzing that coverage guides, briefly; ``make fuzz`` does it at length."""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

import fuzz_targets
import pytest
from fuzz_targets import TARGETS, mutated
from seeds import seed_of

GUIDED = Path(__file__).parent / "fuzz" / "guided.py"
COUNT = 1_000


@pytest.mark.parametrize("name", TARGETS)
def test_no_input_gets_through(tmp_path: Path, name: str) -> None:
    seed = seed_of("FUZZ_SEED")
    options = ("--target", name, "--count", str(COUNT), "--seed", seed)

    done = subprocess.run(
        [sys.executable, str(GUIDED), *options],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )

    kept = {path.name: path.read_bytes() for path in tmp_path.rglob(f"{name}-*")}
    assert done.returncode == 0, (done.stdout, done.stderr, kept)


def holds(name: str) -> bool:
    """Return whether a target lets some changed inputs pass."""
    pick, corpus = random.Random(1), TARGETS[name].corpus()
    try:
        for _ in range(200):
            TARGETS[name].check(mutated(pick, corpus))
    except AssertionError:
        return False
    return True


@pytest.mark.parametrize(
    ("name", "function", "broken"),
    [
        ("rows", "first_damage", lambda *_: None),
        ("rows", "unpack_rows", lambda *_: [fuzz_targets._begun()[3][1]]),
        ("reports", "audit", lambda _: ["a breach"]),
        ("reports", "evolve", lambda *_: None),
    ],
)
def test_a_target_sees_what_is_broken(
    monkeypatch: pytest.MonkeyPatch, name: str, function: str, broken: object
) -> None:
    assert holds(name)
    monkeypatch.setattr(fuzz_targets, function, broken)

    assert not holds(name)


def test_the_target_of_secrets_sees_one_that_is_left(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert holds("secrets")
    monkeypatch.setattr(fuzz_targets.Redactor, "_text", lambda _, text: text)

    assert not holds("secrets")
