"""The same playbook and schedule give the same log, in any process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import hashlib, msgspec
from comparison import Watched, load
from generator import generate

digest = hashlib.sha256()
for number in range(40):
    case = generate(f"fixed.{number}")
    simulation = Watched(case, load(case), case.seed)
    simulation.start()
    moves = 0
    while simulation.step() and moves < 400:
        moves += 1
    digest.update(msgspec.json.encode(simulation.log))
print(digest.hexdigest())
"""


@pytest.mark.spec("POL-12", "REP-05")
def test_hash_seeds_change_nothing() -> None:
    digests = set()
    for seed in ("1", "2"):
        paths = [str(Path(__file__).parent), *sys.path]
        env = {
            **os.environ,
            "PYTHONHASHSEED": seed,
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        }
        ran = subprocess.run(
            [sys.executable, "-c", PROGRAM], env=env, capture_output=True, text=True
        )
        assert ran.returncode == 0, ran.stderr
        digests.add(ran.stdout)

    assert len(digests) == 1
