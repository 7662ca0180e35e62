"""ARCHITECTURE lists every package, and pages name modules that exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "noetl"
ARCHITECTURE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
WALK = (ROOT / "docs/explanation/life-of-an-execution.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `(noetl[\w.]*)` \| (.+) \|$", re.MULTILINE)
HIDDEN = {"__init__", "__main__"}


def top_level() -> set[str]:
    """Packages and modules directly under ``noetl``, as dotted names."""
    found = {path.parent.name for path in SOURCE.glob("*/__init__.py")}
    found |= {path.stem for path in SOURCE.glob("*.py")} - HIDDEN
    return {f"noetl.{name}" for name in found}


def test_every_package_has_one_row() -> None:
    listed = [name for name, _ in ROW.findall(ARCHITECTURE)]

    assert len(listed) == len(set(listed))
    assert {name for name in listed if name.count(".") == 1} == top_level()


def test_every_listed_package_exists() -> None:
    for name, _ in ROW.findall(ARCHITECTURE):
        path = ROOT / "src" / name.replace(".", "/")
        assert path.is_dir() or path.with_suffix(".py").is_file(), name


def test_a_row_is_short() -> None:
    long = [name for name, text in ROW.findall(ARCHITECTURE) if len(text.split()) > 16]

    assert long == []


@pytest.mark.parametrize("page", [ARCHITECTURE, WALK], ids=["ARCHITECTURE", "walk"])
def test_modules_that_a_page_names_exist(page: str) -> None:
    names = re.findall(r"`(?:src/noetl/)?([\w/]+\.py)`", page)

    assert len(names) > 10
    assert [name for name in names if not (SOURCE / name).is_file()] == []
