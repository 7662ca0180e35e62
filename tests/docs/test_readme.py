"""The README says what happens: its commands are run, its playbook is loaded."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from noetl import load

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def transcripts() -> list[tuple[str, str]]:
    """Each ``$ command`` of the console blocks that runs noetl, with its output."""
    found: list[tuple[str, str]] = []
    for block in re.findall(r"```console\n(.*?)```", README, re.DOTALL):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            command, _, output = part.partition("\n")
            if re.search(r"(^|\| )noetl ", command):
                found.append((command, output))
    return found


@pytest.mark.parametrize(("command", "output"), transcripts())
def test_the_readme_shows_what_the_command_prints(command: str, output: str) -> None:
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        command,
        shell=True,
        cwd=ROOT,
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == output
    assert done.stderr == ""


def test_the_readme_has_transcripts() -> None:
    assert len(transcripts()) >= 2


@pytest.mark.spec("ROOT-01")
def test_the_playbook_of_the_readme_has_nothing_to_complain_about() -> None:
    (text,) = re.findall(r"```yaml\n(.*?)```", README, re.DOTALL)
    loaded = load(text)
    assert loaded.valid
    assert loaded.diagnostics == ()
