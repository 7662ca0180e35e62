"""Pure logic of the web pages: track, times, texts, colours."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(
    not (ROOT / "ui" / "node_modules" / ".stamp").is_file(),
    reason="the packages of ui/ are not there; make ui fetches them",
)
def test_the_pure_logic_of_the_pages_holds() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "ui.py"), "test"],
        capture_output=True,
        text=True,
    )

    assert done.returncode == 0, done.stdout[-4000:] + done.stderr
