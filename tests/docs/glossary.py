"""Reads the glossary: its terms, grouped, each with its sentence."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise
from typing import NamedTuple

TITLE = re.compile(r"^(?P<level>#{2,3}) (?P<title>.+)\n\n(?P<text>[^#\n][^\n]*)", re.M)


class Term(NamedTuple):
    group: str
    name: str
    sentence: str


def terms_of(page: str) -> list[Term]:
    """The terms of the page, in its order."""
    terms, group = [], ""
    for title in TITLE.finditer(page):
        if title["level"] == "##":
            group = title["title"]
        else:
            terms.append(Term(group, title["title"], title["text"]))
    return terms


def problems_of(page: str) -> list[str]:
    """What is wrong with the glossary: repeated terms, their order, their sentences."""
    terms = terms_of(page)
    names = Counter(term.name.casefold() for term in terms)
    problems = [f"{name}: twice" for name, count in names.items() if count > 1]
    problems += [
        f"{after.name}: not in alphabetical order"
        for before, after in pairwise(terms)
        if before.group == after.group
        and before.name.casefold() > after.name.casefold()
    ]
    for term in terms:
        if not term.sentence.endswith("."):
            problems.append(f"{term.name}: the sentence has no period at its end")
        if re.search(r"[.!?] ", term.sentence):
            problems.append(f"{term.name}: more than one sentence")
        if len(term.sentence.split()) > 30:
            problems.append(f"{term.name}: more than 30 words")
    return problems
