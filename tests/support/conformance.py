"""Ties tests to the conformance checklist: ``@pytest.mark.spec("VAL-02", ...)``.

An id that the checklist does not have fails the run, so a typing error cannot pass
for coverage. A test that is marked skip or xfail proves nothing and is not counted.
Every xdist worker collects the whole suite, so each can judge it; files are written
and tables printed by the one process that owns the terminal.
"""

from __future__ import annotations

import difflib
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

HEADING = re.compile(r"^## (?P<group>[A-Z]+(?:-[A-Z]+)?) — (?P<title>.+)$")
ROW = re.compile(r"^- \*\*(?P<id>[A-Z-]+-\d+)\*\* (?P<text>.+)$")
CONFLICT = re.compile(r"^\| (?P<id>C-\d+) \| (?P<text>[^|]+) \|")
RETIRED = re.compile(r"^(?:- |\| )~~(?:\*\*)?(?P<id>[A-Z-]+-\d+)")
LEVEL = re.compile(r"\((?P<level>MUST|SHOULD|MAY|INFO) · [^()]*\)$")

DECIDED = "DECIDED"
"""The level of C and S rows: they settle a question and bind like a MUST."""

BINDING = frozenset({"MUST", DECIDED})
UNPROVEN = ("skip", "xfail")


@dataclass(frozen=True)
class Requirement:
    """One row of the checklist."""

    id: str
    level: str
    text: str

    @property
    def group(self) -> str:
        return self.id.rpartition("-")[0]


@dataclass(frozen=True)
class Checklist:
    """The rows of the checklist page, in its order, and the ids it has struck out."""

    requirements: dict[str, Requirement]
    retired: frozenset[str]
    titles: dict[str, str]

    @classmethod
    def read(cls, page: Path) -> Checklist:
        requirements: dict[str, Requirement] = {}
        retired = set()
        titles = {"C": "conflicts, as decided", "S": "silent points, as decided"}
        for line in page.read_text(encoding="utf-8").splitlines():
            if match := HEADING.match(line):
                titles[match["group"]] = match["title"]
            elif match := RETIRED.match(line):
                retired.add(match["id"])
            elif match := ROW.match(line) or CONFLICT.match(line):
                level = LEVEL.search(match["text"])
                text = LEVEL.sub("", match["text"]).strip()
                row = Requirement(
                    match["id"], level["level"] if level else DECIDED, text
                )
                if row.id in requirements:
                    raise pytest.UsageError(f"{page}: {row.id} stands there twice")
                requirements[row.id] = row
        return cls(requirements, frozenset(retired), titles)

    def groups(self) -> dict[str, list[Requirement]]:
        """The rows of each group, groups in the order of the page."""
        found: dict[str, list[Requirement]] = {}
        for row in self.requirements.values():
            found.setdefault(row.group, []).append(row)
        return found

    def complaint(self, id_: object) -> str | None:
        """What is wrong with an id that a test names, or None."""
        if isinstance(id_, str) and id_ in self.requirements:
            return None
        if id_ in self.retired:
            return f"{id_} is retired"
        near = difflib.get_close_matches(str(id_), self.requirements, n=1, cutoff=0.5)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        return f"unknown requirement {id_!r}{hint}"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("conformance")
    group.addoption(
        "--conformance",
        metavar="FILE",
        help="write the matrix requirement -> tests to FILE and print it per group",
    )
    group.addoption(
        "--conformance-check",
        metavar="FILE",
        help="fail if the matrix in FILE is not that of the collected tests",
    )
    group.addoption(
        "--require-groups",
        metavar="GROUPS",
        default="",
        help="fail if a binding row of these groups (ROOT,VAL,...) has no test",
    )
    group.addoption(
        "--spec",
        metavar="IDS",
        default="",
        help="run only the tests that prove one of these rows (VAL-02,S-50,...)",
    )
    parser.addini(
        "conformance_page",
        help="the checklist, relative to the root of the repository",
        default="docs/reference/conformance.md",
    )


def pytest_configure(config: pytest.Config) -> None:
    page = config.rootpath / config.getini("conformance_page")
    if not page.is_file():
        raise pytest.UsageError(f"no conformance checklist at {page}")
    checklist = Checklist.read(page)
    config.pluginmanager.register(Traceability(config, checklist), "traceability")


class Traceability:
    """Collects who proves what in one run, and judges it."""

    def __init__(self, config: pytest.Config, checklist: Checklist) -> None:
        self.config = config
        self.checklist = checklist
        self.proofs: dict[str, list[str]] = {}
        """Requirement id -> files of the tests that prove it, sorted."""

    @pytest.hookimpl(tryfirst=True)  # before -k and -m take tests away
    def pytest_collection_modifyitems(
        self, session: pytest.Session, items: list[pytest.Item]
    ) -> None:
        proofs: defaultdict[str, set[str]] = defaultdict(set)
        complaints = []
        for item in items:
            proven = not any(item.get_closest_marker(name) for name in UNPROVEN)
            for mark in item.iter_markers("spec"):
                if not mark.args:
                    complaints.append(f"{item.nodeid}: the mark spec names no id")
                for id_ in mark.args:
                    if complaint := self.checklist.complaint(id_):
                        complaints.append(f"{item.nodeid}: {complaint}")
                    elif proven:
                        proofs[id_].add(item.nodeid.partition("::")[0])
        self.proofs = {id_: sorted(files) for id_, files in proofs.items()}
        complaints += self._unmet()
        if complaints:
            report(session, complaints)
        self._select(items)

    def _unmet(self) -> Iterator[str]:
        """What the options ask for and the collected tests do not give."""
        groups = self.checklist.groups()
        for name in names(self.config.option.require_groups):
            if name not in groups:
                yield f"--require-groups: no group {name!r}; known: {', '.join(groups)}"
            for row in groups.get(name, ()):
                if row.level in BINDING and row.id not in self.proofs:
                    yield f"no test proves {row.id} ({row.level}): {row.text}"
        if path := self.config.option.conformance_check:
            file = self.config.invocation_params.dir / path
            text = file.read_text(encoding="utf-8") if file.is_file() else ""
            if text != matrix(self.checklist, self.proofs):
                yield f"{path} is out of date; run: make conformance"

    def _select(self, items: list[pytest.Item]) -> None:
        wanted = set(names(self.config.option.spec))
        if not wanted:
            return
        for id_ in sorted(wanted):
            if complaint := self.checklist.complaint(id_):
                raise pytest.UsageError(f"--spec: {complaint}")
        kept: list[pytest.Item] = []
        dropped: list[pytest.Item] = []
        for item in items:
            ids = {id_ for mark in item.iter_markers("spec") for id_ in mark.args}
            (kept if ids & wanted else dropped).append(item)
        items[:] = kept
        self.config.hook.pytest_deselected(items=dropped)

    def pytest_sessionfinish(self) -> None:
        if hasattr(self.config, "workeroutput"):  # an xdist worker tells its controller
            self.config.workeroutput["proofs"] = self.proofs

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        self.proofs = getattr(node, "workeroutput", {}).get("proofs", self.proofs)

    def pytest_terminal_summary(
        self, terminalreporter: pytest.TerminalReporter
    ) -> None:
        path = self.config.option.conformance
        if not path:
            return
        file = self.config.invocation_params.dir / path
        file.write_text(matrix(self.checklist, self.proofs), encoding="utf-8")
        terminalreporter.section("conformance")
        for line in summary(self.checklist, self.proofs):
            terminalreporter.line(line)
        terminalreporter.line(f"written: {path}")


def report(session: pytest.Session, complaints: Iterable[str]) -> None:
    """Stop the run with an error of collection, which xdist workers can pass on."""
    session.config.hook.pytest_collectreport(
        report=pytest.CollectReport(
            nodeid="conformance",
            outcome="failed",
            longrepr="\n".join(dict.fromkeys(complaints)),
            result=[],
        )
    )


def names(option: str) -> list[str]:
    return [name.strip() for name in option.split(",") if name.strip()]


def summary(checklist: Checklist, proofs: dict[str, list[str]]) -> Iterator[str]:
    """A table for people: per group how many rows have a test, and which have none."""
    rows_total = rows_covered = 0
    yield f"{'group':<10} {'rows':>5} {'covered':>8}  missing (binding rows)"
    for group, rows in checklist.groups().items():
        covered = sum(row.id in proofs for row in rows)
        missing = ranges(
            int(row.id.rpartition("-")[2])
            for row in rows
            if row.id not in proofs and row.level in BINDING
        )
        rows_total += len(rows)
        rows_covered += covered
        line = f"{group:<10} {len(rows):>5} {covered:>8}  {missing}"
        yield line.rstrip()
    yield f"{'all':<10} {rows_total:>5} {rows_covered:>8}"


def ranges(numbers: Iterable[int]) -> str:
    """``1 2 3 7`` as ``01-03 07``."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1][1:] = [number]
        else:
            runs.append([number])
    return " ".join("-".join(f"{end:02}" for end in run) for run in runs)


def matrix(checklist: Checklist, proofs: dict[str, list[str]]) -> str:
    """The page that lists, for every row, the test files that prove it.

    Files, not functions, and no totals: the page changes only with coverage, one line
    per row, so branches that cover different rows merge into the right page.
    """
    lines = [
        "# Conformance matrix",
        "",
        "Which test files prove which row of the [checklist](conformance.md).",
        "Generated by `make conformance`; do not edit. `pytest --spec VAL-02` runs the",
        "tests of a row. An empty last column: no test proves the row yet.",
    ]
    for group, rows in checklist.groups().items():
        lines += ["", f"## {group} — {checklist.titles[group]}", ""]
        lines += ["| id | level | tests |", "|---|---|---|"]
        for row in rows:
            files = ", ".join(f"`{file}`" for file in proofs.get(row.id, ()))
            lines.append(f"| {row.id} | {row.level} | {files} |".replace("|  |", "| |"))
    return "\n".join(lines) + "\n"
