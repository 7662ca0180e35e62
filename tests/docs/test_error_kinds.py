"""The table of error kinds and the code that makes them say the same."""

from __future__ import annotations

import re
from fnmatch import fnmatchcase
from pathlib import Path
from textwrap import dedent

import pytest
from kind_sites import Found, find_sites

from noetl.engine.error_kinds import ERROR_KINDS

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "noetl"
KINDS = {name: kind for part in ERROR_KINDS.values() for name, kind in part.items()}
UNDECLARED = "{kind} is made at {where}: declare it in engine/error_kinds"


@pytest.fixture(scope="module")
def found() -> Found:
    # A grammar lists the members of an error, and makes none.
    shown = {SOURCE / "testing" / "grammar.py", *(SOURCE / "report").rglob("*.py")}
    files = sorted(set(SOURCE.rglob("*.py")) - shown)
    return find_sites(
        {file.relative_to(ROOT).as_posix(): file.read_text("utf-8") for file in files}
    )


def entry_of(kind: str) -> str | None:
    """The entry that speaks of a kind: its own, or that of its family."""
    if kind in KINDS:
        return kind
    families = (name for name in KINDS if name.endswith(".*"))
    return next((name for name in families if fnmatchcase(kind, name)), None)


@pytest.mark.spec("S-65")
def test_code_makes_no_error_of_an_undeclared_kind(found: Found) -> None:
    undeclared = [
        UNDECLARED.format(kind=site.kind, where=site.where)
        for site in found.sites
        if entry_of(site.kind) is None
    ]

    assert not undeclared
    assert not found.riddles, "a kind must be readable: a constant, or another error's"


@pytest.mark.spec("S-65")
def test_every_declared_kind_is_made_or_reserved(found: Found) -> None:
    made = {entry_of(site.kind) for site in found.sites}

    assert [n for n, kind in KINDS.items() if n not in made and not kind.reserved] == []
    assert [n for n, kind in KINDS.items() if n in made and kind.reserved] == [], (
        "it is made by now: remove its reservation"
    )


@pytest.mark.spec("S-65")
def test_retryable_is_what_the_code_says(found: Found) -> None:
    for name, kind in KINDS.items():
        said = {site.retryable for site in found.sites if entry_of(site.kind) == name}
        if kind.reserved:
            continue
        if kind.retryable is None:
            assert said >= {True, False} or None in said, name
        else:
            assert said <= {kind.retryable, None}, name


@pytest.mark.spec("S-65")
def test_every_kind_of_the_checklist_is_declared() -> None:
    page = (ROOT / "docs" / "reference" / "conformance.md").read_text("utf-8")
    (row,) = re.findall(r"\*\*S-65\*\* .*: (.+?); tools may add", page)

    listed = row.split(", ")

    assert len(listed) > 30
    assert [kind for kind in listed if kind not in KINDS] == []


def test_every_kind_stands_in_one_section() -> None:
    names = [name for part in ERROR_KINDS.values() for name in part]

    assert len(names) == len(set(names))


@pytest.mark.parametrize("name", KINDS)
def test_an_entry_is_made_of_sentences(name: str) -> None:
    for text in (KINDS[name].doc, KINDS[name].remedy):
        assert re.fullmatch(r"[A-Z`].*\.", text)


@pytest.mark.parametrize(
    ("source", "kinds"),
    [
        pytest.param("Failure('a.b', m)", ["a.b"], id="a constructor"),
        pytest.param("raise ToolError(kind='a', message=m)", ["a"], id="a keyword"),
        pytest.param("raise StoreError(m, 'a')", ["a"], id="the second argument"),
        pytest.param("raise StoreError(m)", [], id="the class says it"),
        pytest.param("class X(StoreError): kind = 'a'", ["a"], id="a class"),
        pytest.param("Failure(error.kind, m)", [], id="handed on"),
        pytest.param("x = {'kind': 'a', 'message': m}", ["a"], id="a mapping"),
        pytest.param("x = {'kind': 'step'}", [], id="a mapping of another sort"),
        pytest.param("Failure('a' if x else 'b', m)", ["a", "b"], id="a choice"),
        pytest.param("Failure(f'pg.{state}', m)", ["pg.*"], id="a family"),
        pytest.param(
            """
            def make(x):
                kind = "a"
                if x:
                    kind = "b"
                return ToolError(kind, m)
            """,
            ["a", "b"],
            id="a variable",
        ),
        pytest.param(
            """
            TABLE = {1: "a", 2: "b"}
            def make(x):
                return ToolError(TABLE.get(x, "c"), m)
            """,
            ["a", "b", "c"],
            id="a table",
        ),
        pytest.param(
            """
            def deepest(number, kind): return Failure(kind, m)
            def deeper(kind): return deepest(1, kind)
            class Outcome:
                @classmethod
                def failed(cls, kind): return deeper(kind)
            class Wrong(Exception):
                def __init__(self, kind): self.error = Outcome.failed(kind)
            raise Wrong("a")
            """,
            ["a"],
            id="through functions that hand it on",
        ),
    ],
)
def test_the_reader_finds(source: str, kinds: list[str]) -> None:
    read = find_sites({"x.py": dedent(source)})

    assert [site.kind for site in read.sites] == kinds
    assert not read.riddles


def test_the_reader_says_what_it_cannot_read() -> None:
    read = find_sites({"x.py": "ToolError(compute(), m)"})

    assert read.riddles == ["x.py:1: compute()"]


def test_the_reader_knows_what_is_retryable() -> None:
    lines = "ToolError('a', m)", "ToolError('b', m, retryable=True)"

    read = find_sites({"x.py": "\n".join([*lines, "ToolError('c', m, retryable=x)"])})

    assert [site.retryable for site in read.sites] == [False, True, None]
