"""The threat model: every promise is proved by tests, and these tests exist."""

from __future__ import annotations

import ast
import re
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "explanation" / "threat-model.md").read_text(encoding="utf-8")
PROMISES = PAGE.partition("## Promises and their tests\n")[2].partition("\n## ")[0]
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
LINES = [line for line in PROMISES.splitlines() if line.startswith("|")]
ROWS = [line for line in LINES if not line.startswith(("| promise |", "|---"))]
FINDINGS = (ROOT / "tests" / "security" / "README.md").read_text(encoding="utf-8")
NAMED = sorted(set(TEST.findall(PAGE + FINDINGS)))


@cache
def defined_in(file: str) -> frozenset[str]:
    """The names of the tests that pytest finds in a file."""
    tree = ast.parse((ROOT / file).read_text(encoding="utf-8"))
    return frozenset(
        node.name
        for node in tree.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and node.name.startswith("test_")
    )


def test_there_are_promises_for_every_boundary() -> None:
    assert len(ROWS) > 100
    assert len(NAMED) > len(ROWS)
    assert PROMISES.count("\n### ") >= 10


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[2:62])
def test_a_promise_is_a_sentence_with_its_tests(row: str) -> None:
    promise, proofs = (cell.strip() for cell in row.strip("|").split(" | "))

    assert re.fullmatch(r"[A-Z`].+\.", promise), promise
    assert TEST.search(proofs), "a promise without a test"
    assert not TEST.sub("", proofs).strip(", "), "only tests stand in this column"


@pytest.mark.parametrize(("file", "name"), NAMED)
def test_a_test_that_a_page_names_exists(file: str, name: str) -> None:
    assert name in defined_in(file)


def test_every_promise_is_made_once() -> None:
    promises = [row.partition(" | ")[0] for row in ROWS]

    assert len(promises) == len(set(promises))


def test_every_finding_of_the_audit_has_tests_that_failed_before() -> None:
    found = set()
    for row in FINDINGS.splitlines():
        if match := re.match(r"\| ([CHML]\d), ", row):
            _, tests, seen = (cell.strip() for cell in row.strip("|").split(" | "))
            assert TEST.search(tests), row
            assert seen.startswith(("as is", "black box")), row
            found.add(match[1])
    counts = {"C": 3, "H": 6, "M": 4, "L": 5}
    assert found == {f"{k}{n + 1}" for k, count in counts.items() for n in range(count)}
