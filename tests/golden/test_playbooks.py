"""Every bad playbook says exactly this; its good neighbour says nothing of the kind.

The first line of a bad playbook names the requirements it proves. After a wanted
change of words run ``make golden`` and read the difference.
"""

from __future__ import annotations

import re
from pathlib import Path

import click
import pytest

from noetl import load
from noetl.commands.output.diagnostics import format_diagnostic
from noetl.dsl.diagnostics import Diagnostic

PLAYBOOKS = Path(__file__).parent.parent / "playbooks"
BAD = sorted((PLAYBOOKS / "invalid").glob("*.yaml"))


def codes_of(path: Path) -> list[str]:
    first = path.read_bytes().splitlines()[0].decode()
    assert first.startswith("# spec: "), f"{path.name}: name what it proves"
    return re.findall(r"[A-Z]+(?:-[A-Z]+)*-\d+", first)


def said(path: Path) -> str:
    content = path.read_bytes()
    lines = content.decode("utf-8", "replace").splitlines()
    blocks = [
        format_diagnostic(found, path.name, lines)
        for found in load(content).diagnostics
    ]
    return click.unstyle("\n\n".join(blocks)) + "\n"


def cases() -> list[object]:
    return [
        pytest.param(path, id=path.stem, marks=pytest.mark.spec(*codes_of(path)))
        for path in BAD
    ]


@pytest.mark.parametrize("path", cases())
def test_bad_playbook_says_exactly_this(path: Path) -> None:
    expected = path.with_suffix(".out")
    assert expected.exists(), f"no {expected.name}: run make golden and read it"
    assert said(path) == expected.read_text()


def findings(path: Path) -> set[tuple[str, str]]:
    def key(found: Diagnostic) -> tuple[str, str]:
        return found.code, found.rule

    return {key(found) for found in load(path.read_bytes()).diagnostics}


@pytest.mark.parametrize("path", cases())
def test_good_neighbour_is_valid_and_silent(path: Path) -> None:
    neighbour = PLAYBOOKS / "valid" / path.name
    loaded = load(neighbour.read_bytes())
    assert loaded.valid, [each.message for each in loaded.diagnostics]
    claimed = {each for each in findings(path) if each[0] in codes_of(path)}
    assert claimed
    assert not findings(neighbour) & claimed
