"""Pages made from code are fresh, the navigation is complete, links lead somewhere."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import yaml

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
LINK = re.compile(r"\]\((?!\w+:)(?P<file>[^)#\s]*)(?:#(?P<anchor>[^)\s]+))?\)")
PAGES = [
    *sorted(DOCS.rglob("*.md")),
    *sorted(ROOT.glob("*.md")),
    ROOT / "examples" / "README.md",
]


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs", ROOT / "scripts" / "docs.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_pages_made_from_code_are_fresh(generator: ModuleType) -> None:
    stale = [path.name for path, _ in generator.stale_pages()]

    assert not stale, "run: make docs"


def test_cells_cannot_break_a_table(generator: ModuleType) -> None:
    assert generator.table("| a | b |", [("x|y", "two\nlines")]).splitlines() == [
        "| a | b |",
        "|---|---|",
        "| x\\|y | two lines |",
    ]


def test_the_navigation_lists_every_page_once() -> None:
    settings = yaml.safe_load((ROOT / "mkdocs.yml").read_text(encoding="utf-8"))

    listed = list(leaves(settings["nav"]))

    pages = [path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")]
    assert sorted(listed) == sorted(pages)


def leaves(entry: object) -> Iterator[str]:
    match entry:
        case str():
            yield entry
        case list():
            for child in entry:
                yield from leaves(child)
        case dict():
            for child in entry.values():
                yield from leaves(child)


@pytest.mark.parametrize(
    "page", PAGES, ids=[path.relative_to(ROOT).as_posix() for path in PAGES]
)
def test_links_lead_to_files_and_headings(page: Path) -> None:
    for link in LINK.finditer(without_code(page)):
        target = page.parent / link["file"] if link["file"] else page
        assert target.exists(), link[0]
        if link["anchor"]:
            assert link["anchor"] in anchors(target), link[0]


def anchors(page: Path) -> set[str]:
    titles = re.findall(r"^#+ (.+)$", without_code(page), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", title).lower().replace(" ", "-") for title in titles}


def without_code(page: Path) -> str:
    text = re.sub(r"^```.*?^```", "", page.read_text("utf-8"), flags=re.M | re.S)
    return re.sub(r"`[^`\n]*`", "", text)
