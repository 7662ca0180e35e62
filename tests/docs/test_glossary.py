"""The glossary defines each term once, in one short sentence, and pages link to it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from glossary import problems_of, terms_of

ROOT = Path(__file__).parents[2]
GLOSSARY = (ROOT / "docs" / "explanation" / "glossary.md").read_text(encoding="utf-8")
LINK = re.compile(r"\]\((?P<path>[^)#\s]*glossary\.md)(?:#[^)\s]+)?\)")
ESSENTIAL = {
    *("arc", "command", "directive", "epoch", "fork point", "inbox", "iteration"),
    *("lease", "long poll", "outcome", "pipeline", "place", "pool", "reference"),
    *("slot", "slot of a concurrency key", "step run", "task run", "token"),
    *("transition", "wake-up", "worker gateway", "worker registry"),
}


def test_each_term_is_defined_once_in_one_short_sentence() -> None:
    assert problems_of(GLOSSARY) == []


def test_every_heading_of_a_term_has_its_sentence() -> None:
    headings = re.findall(r"^### (.+)$", GLOSSARY, re.MULTILINE)

    assert [term.name for term in terms_of(GLOSSARY)] == headings


def test_the_terms_of_language_engine_and_cluster_are_defined() -> None:
    assert ESSENTIAL - {term.name for term in terms_of(GLOSSARY)} == set()


@pytest.mark.parametrize(
    "page",
    [
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "docs/index.md",
        "docs/explanation/life-of-an-execution.md",
        "docs/reference/specification.md",
    ],
)
def test_pages_that_use_the_terms_link_to_the_glossary(page: str) -> None:
    text = (ROOT / page).read_text(encoding="utf-8")

    assert LINK.search(text) is not None


@pytest.mark.parametrize(
    ("page", "problem"),
    [
        ("## g\n\nGroup.\n\n### a\n\nOne.\n\n### a\n\nTwo.\n", "a: twice"),
        ("### b\n\nOne.\n\n### a\n\nTwo.\n", "a: not in alphabetical order"),
        ("### a\n\nOne\n", "a: the sentence has no period at its end"),
        ("### a\n\nOne. Two.\n", "a: more than one sentence"),
        (f"### a\n\n{'word ' * 31}end.\n", "a: more than 30 words"),
    ],
    ids=["twice", "order", "period", "sentences", "words"],
)
def test_a_wrong_entry_is_found(page: str, problem: str) -> None:
    assert problem in problems_of(page)
