"""Typical mistakes: each one gets an answer that names it, and none ends in silence.

A playbook of ``tests/playbooks/mistakes`` begins with the command that answers, and
with words of the answer: ``# validate: did you mean 'step'?``. Further mistakes are
further files.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
import pytest

from noetl import load
from noetl.commands.output.diagnostics import format_diagnostic

FOLDER = Path(__file__).parents[1] / "playbooks" / "mistakes"


def answered_by(command: str) -> list[object]:
    """The playbooks that this command answers, with words of its answer."""
    found = []
    for path in sorted(FOLDER.glob("*.yaml")):
        by, _, words = path.read_text().partition("\n")[0].partition(": ")
        assert by in ("# validate", "# run"), f"{path.name}: name what answers"
        if by == f"# {command}":
            found.append(pytest.param(path, words, id=path.stem))
    assert found
    return found


@pytest.mark.spec("SRV-06", "S-75")
@pytest.mark.parametrize(("path", "words"), answered_by("validate"))
def test_a_mistake_that_the_validator_names(path: Path, words: str) -> None:
    """As an error or a warning, which ``noetl run`` prints, too."""
    lines = path.read_text().splitlines()
    said = [
        click.unstyle(format_diagnostic(found, path.name, lines))
        for found in load(path.read_bytes()).diagnostics
        if found.severity in ("error", "warning")
    ]

    assert any(words in each for each in said), said


@pytest.mark.spec("S-73", "S-74")
@pytest.mark.parametrize(("path", "words"), answered_by("run"))
def test_a_mistake_that_the_end_of_a_run_names(
    shell: Any, path: Path, words: str
) -> None:
    done = shell.noetl("run", str(path))

    assert words in done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    if done.returncode == 0:  # it completed, but not in silence
        document = json.loads(shell.noetl("show", "last", "--json").stdout)
        assert any(document["counts"].values())
