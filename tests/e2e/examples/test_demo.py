"""``make demo`` runs to its end, says when it does not, and leaves nothing behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from demo_api import ROOT


def start(folder: Path, *arguments: str) -> subprocess.Popen[str]:
    """The demo in a group of its own, as a terminal starts it."""
    command = [sys.executable, "scripts/demo.py", "--latency", "0", *arguments]
    return subprocess.Popen(
        command,
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        process_group=0,
    )


def assert_nothing_is_left(folder: Path, output: str) -> None:
    assert list(folder.iterdir()) == []
    (url,) = set(re.findall(r"http://127\.0\.0\.1:\d+", output))
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(url)


def test_it_runs_to_its_end_and_shows_the_log(tmp_path: Path) -> None:
    process = start(tmp_path, "examples/hotels.yaml", "--set", "patience=5ms")
    output, _ = process.communicate()

    assert process.returncode == 0
    assert "again in 0.005 s" in output, "progress"
    for command in ("run", "list", "show"):
        assert f"\n$ noetl {command}" in output
    assert "hotels: 27" in output
    assert "playbook.processed" in output
    assert "The service counted 52 calls; 26 of them it refused." in output
    assert "Try next" in output
    assert_nothing_is_left(tmp_path, output)


def test_it_fails_if_the_run_fails(tmp_path: Path) -> None:
    process = start(tmp_path, "examples/errors.yaml", "--set", "case=refused")
    output, _ = process.communicate()

    assert process.returncode == 1
    assert "policy.fail" in output
    assert "The run ended with exit code 1." in output
    assert_nothing_is_left(tmp_path, output)


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)]
)
def test_interrupted_it_cleans_up(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    process = start(tmp_path, "examples/hotels.yaml", "--set", "patience=1s")
    assert process.stdout is not None
    seen = ""
    while "again in 1 s" not in seen:  # under way, and not over for long
        line = process.stdout.readline()
        assert line, seen
        seen += line
    os.killpg(process.pid, number)
    output, _ = process.communicate()

    assert process.returncode == code
    assert_nothing_is_left(tmp_path, seen + output)
