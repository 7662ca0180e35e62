"""Pages made from code are fresh, the navigation is complete, links lead somewhere."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

import pytest
from navigation import leaves, read_navigation

from noetl.templates import FILTERS, GLOBALS, METHODS, TESTS

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


@pytest.mark.spec("TPL-01")
def test_the_page_of_templates_lists_every_function() -> None:
    page = (DOCS / "reference" / "templates.md").read_text()
    catalogs = (FILTERS, TESTS, GLOBALS, *METHODS.values())

    assert "| `replace(old, new, count=none)` |" in page
    assert "`default(default_value='', boolean=false)`; also `d`" in page
    assert "| `{{ [3, 1, 2] \\| sort }}` | `[1, 2, 3]` |" in page
    for title in ("Filters", "Tests", "Methods of a text", "Functions"):
        assert f"## {title}\n" in page
    for entry in (entry for catalog in catalogs for entry in catalog.values()):
        assert f"`{entry.name}" in page


def test_the_navigation_lists_every_page_once() -> None:
    pages = [path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md")]

    assert sorted(leaves(read_navigation())) == sorted(pages)


def test_contributors_pages_are_in_their_own_section() -> None:
    (section,) = (
        list(leaves(entry["Contributing"]))
        for entry in read_navigation()
        if isinstance(entry, dict) and "Contributing" in entry
    )
    decisions = [f"adr/{path.name}" for path in (DOCS / "adr").glob("*.md")]

    assert {
        *decisions,
        "reference/conformance.md",
        "reference/conformance-matrix.md",
        "explanation/performance.md",
    } <= set(section)


def test_the_index_leads_to_every_page() -> None:
    index = (DOCS / "index.md").read_text(encoding="utf-8")
    pages = {page for page in leaves(read_navigation()) if not page.startswith("adr/0")}

    assert pages - {link["file"] for link in LINK.finditer(index)} == {"index.md"}


def test_a_section_that_is_written_from_code_must_be_there(
    generator: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "specification.md").write_text("# Page without the section\n")
    monkeypatch.setattr(generator, "FOLDER", tmp_path)
    monkeypatch.setattr(generator, "PAGES", {})

    with pytest.raises(LookupError, match="Every key"):
        list(generator.stale_pages())


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
