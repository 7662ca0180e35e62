"""Pages name the right distribution, and the install page lists all extras."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
INSTALL = (ROOT / "docs" / "how-to" / "install.md").read_text(encoding="utf-8")
PAGES = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
WRONG = re.compile(r"pip3? install\b[^`\n]*?(?<![\w./-])noetl(?![\w-])")


def test_the_install_page_lists_the_extras_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    extras = set(project["project"]["optional-dependencies"]) - {"dev", "docs"}
    (table,) = re.findall(r"^\| extra \| adds \|\n(.*?)\n\n", INSTALL, re.M | re.S)

    assert set(re.findall(r"^\| `(\w+)` \|", table, re.M)) == extras


def test_no_page_installs_the_distribution_of_another_program() -> None:
    wrong = [
        (page.relative_to(ROOT).as_posix(), found[0])
        for page in PAGES
        for found in WRONG.finditer(page.read_text(encoding="utf-8"))
    ]

    assert wrong == []


@pytest.mark.parametrize(
    ("command", "is_wrong"),
    [
        ("pip install noetl", True),
        ("pip install --upgrade 'noetl[duckdb]'", True),
        ("pip install noetl-engine", False),
        ("pip install 'noetl-engine[duckdb]'", False),
        ("pip install ./noetl_engine-0.1.0-py3-none-any.whl", False),
        ("pip install '.[duckdb]'", False),
    ],
)
def test_the_wrong_distribution_is_recognized(command: str, is_wrong: bool) -> None:
    assert (WRONG.search(command) is not None) is is_wrong
