"""A playbook test that fails says exactly this; its neighbour passes.

After a wanted change of words run ``make golden`` and read the difference.
"""

from __future__ import annotations

import re
from contextlib import chdir
from pathlib import Path

import pytest
from click.testing import CliRunner

from noetl.clictl import noetl

SUITES = Path(__file__).parent / "suites"
FAILING = sorted((SUITES / "failing").glob("*.test.yaml"))


def said(path: Path) -> str:
    """What ``noetl test`` prints, and how it ends; how long it took aside."""
    with chdir(path.parent):
        done = CliRunner().invoke(noetl, ["test", path.name])
    text = re.sub(r" in [\d.]+ s\n\Z", " in TIME\n", done.output)
    return f"{text}exit {done.exit_code}\n"


@pytest.mark.parametrize("path", FAILING, ids=lambda path: path.stem)
def test_a_failure_says_exactly_this(path: Path) -> None:
    expected = path.with_suffix(".out")
    assert expected.exists(), f"no {expected.name}: run make golden and read it"
    assert said(path) == expected.read_text()


@pytest.mark.parametrize("path", FAILING, ids=lambda path: path.stem)
def test_its_neighbour_passes(path: Path) -> None:
    text = said(SUITES / "passing" / path.name)

    assert text.endswith("exit 0\n"), text
    assert "FAILED" not in text
