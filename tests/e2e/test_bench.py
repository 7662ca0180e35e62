"""``noetl bench``: every answer is checked, and the home stays as it was."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path


def bench(home: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "noetl", "bench", *args],
        env={**os.environ, "NOETL_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )


def test_it_measures_steps_iterations_and_executions(tmp_path: Path) -> None:
    folder = tmp_path / "disk"
    folder.mkdir()

    done = bench(tmp_path / "home", "--quick", "--folder", str(folder), "--json")

    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert list(found) == ["python", "noop"]
    for figures in found.values():
        assert [each["name"] for each in figures] == [
            "chain of steps",
            "parallel loop",
            "backlog",
            "latency of one step",
        ]
        assert all(each["value"] > 0 for each in figures)
    assert list(folder.iterdir()) == []
    assert not (tmp_path / "home").exists()


def test_a_folder_that_is_not_there_is_said(tmp_path: Path) -> None:
    done = bench(tmp_path, "--folder", str(tmp_path / "nowhere"))

    assert done.returncode == 2
    assert done.stderr.startswith("noetl: --folder: No such file or directory")
