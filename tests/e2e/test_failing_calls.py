"""Calls to the disk that fail: never told as success, nothing lost, work goes on.

``FAILING_SEED`` repeats a choice of cases; ``scripts/storage_faults.py`` takes
them all.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from crash.shim import environment, missing
from seeds import seed_of

pytestmark = pytest.mark.skipif(missing() is not None, reason=missing() or "")
SEED = seed_of("FAILING_SEED")
SUPPORT = Path(__file__).parents[1] / "support"
SAMPLE = 50


def run_watched(folder: Path, module: str, *words: str) -> dict[str, Any]:
    """Run a module whose file calls below ``folder``/root are watched."""
    (folder / "root").mkdir()
    done = subprocess.run(
        [sys.executable, "-m", module, str(folder), *words],
        env={**environment(folder / "root"), "PYTHONPATH": str(SUPPORT)},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    document: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return document


def test_a_run_whose_nth_call_fails_says_so_and_can_go_on(tmp_path: Path) -> None:
    print(f"FAILING_SEED={SEED}")  # noqa: T201

    found = run_watched(tmp_path, "crash.failing", SEED, str(SAMPLE))

    assert found["wrong"] == []
    assert found["cases"] == SAMPLE
    assert any("exit code 2" in each for each in found["codes"])


def test_a_server_with_a_full_disk_refuses_and_later_goes_on_by_itself(
    tmp_path: Path,
) -> None:
    found = run_watched(tmp_path, "crash.full_disk")

    for status, problem in found["refused"]:
        assert (status, problem["kind"]) == (503, "store.unavailable")
        assert problem["store"] == "store.full"
        assert problem["hint"].startswith("make room on the disk of the store")
    assert found["read"] == 200
    assert found["sent"] == 200
    assert found["ended"] == ["completed"] * 3
    assert found["wrong"] == []
