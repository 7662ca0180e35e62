"""The command line as its user sees it: a child process, its output, its exit code."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: t, path: tests/t}\n"
GOOD = HEAD + "workflow:\n  - step: start\n    tool: {kind: noop}\n"
BAD = HEAD + "workflow:\n  - step: start\n    next: {arcs: [{step: strat}]}\n"

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def noetl() -> Run:
    """Run ``noetl`` with these arguments, without colours of this terminal."""

    def run(
        *args: str, stdin: str | bytes = "", **environ: str
    ) -> subprocess.CompletedProcess[str]:
        content = stdin.encode() if isinstance(stdin, str) else stdin
        done = subprocess.run(
            [sys.executable, "-m", "noetl", *args],
            input=content,
            capture_output=True,
            check=False,
            env={"PATH": os.environ["PATH"], **environ},
        )
        out, err = done.stdout.decode(), done.stderr.decode()
        return subprocess.CompletedProcess(done.args, done.returncode, out, err)

    return run


@pytest.fixture
def good() -> str:
    return GOOD


@pytest.fixture
def bad() -> str:
    return BAD
