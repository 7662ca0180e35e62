"""Fragments have the form of a fragment, and the changelog has this version."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
KINDS = ("Added", "Changed", "Deprecated", "Removed", "Fixed", "Security")
NAME = re.compile(rf"[a-z0-9-]+\.({'|'.join(KINDS).lower()})\.md")


def test_fragments_have_a_topic_a_kind_and_a_text() -> None:
    fragments = [path for path in (ROOT / "changes").iterdir() if path.stem != "README"]

    assert [path.name for path in fragments if not NAME.fullmatch(path.name)] == []
    assert [path.name for path in fragments if not path.read_text().strip()] == []


@pytest.mark.parametrize("name", ["a.md", "A.fixed.md", "a.broken.md", "a.fixed.txt"])
def test_a_fragment_with_another_name_is_found(name: str) -> None:
    assert NAME.fullmatch(name) is None


def test_the_newest_section_is_the_version_of_the_package() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))

    versions = re.findall(r"^## (\S+)", CHANGELOG, re.MULTILINE)

    assert versions[0] == project["project"]["version"]


def test_sections_have_the_known_kinds_once_and_in_order() -> None:
    for section in CHANGELOG.split("\n## ")[1:]:
        kinds = re.findall(r"^### (\w+)$", section, re.MULTILINE)
        assert kinds == [kind for kind in KINDS if kind in kinds]
