"""What pages show of the examples is what the examples are."""

from __future__ import annotations

import pytest
from demo_api import ROOT
from excerpts import Excerpt, excerpts_of, missing_part

PAGES = sorted((ROOT / "docs").rglob("*.md"))
FOUND = [
    pytest.param(excerpt, id=f"{page.stem}: {excerpt.path}")
    for page in PAGES
    for excerpt in excerpts_of(page.read_text())
]


@pytest.mark.parametrize("excerpt", FOUND)
def test_an_excerpt_is_what_its_file_says(excerpt: Excerpt) -> None:
    assert missing_part(excerpt, (ROOT / excerpt.path).read_text()) is None


@pytest.mark.parametrize(
    ("page", "missing"),
    [
        pytest.param("b:\n  c: 1\n# …\ne: 2\n", None, id="indented and cut"),
        pytest.param("b:\nc: 1\n", "b:\nc: 1\n", id="another shape"),
        pytest.param("e: 2\n# …\nc: 1\n", "c: 1\n", id="another order"),
        pytest.param("c: 2\n", "c: 2\n", id="another value"),
    ],
)
def test_a_difference_is_seen(page: str, missing: str | None) -> None:
    block = f"```yaml\n# examples/x.yaml\n{page}```\n"

    (excerpt,) = excerpts_of(block)

    assert missing_part(excerpt, "a:\n  b:\n    c: 1\n  d: 1\n  e: 2\n") == missing
