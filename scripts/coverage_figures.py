"""What the tests execute of ``src/noetl``: files, areas with bounds, exceptions."""

from __future__ import annotations

import json
import re
import sys
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import NamedTuple

from coverage import Coverage

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "noetl"
EXCEPTION = re.compile(r"# pragma: no (?:cover|branch)(?:: (\S.*))?$")


class Count(NamedTuple):
    """Lines and branches, and how many of them no test executes."""

    lines: int
    lines_missed: int
    branches: int
    branches_missed: int

    @property
    def branch_share(self) -> float:
        return _percent(self.branches, self.branches_missed)

    @property
    def line_share(self) -> float:
        return _percent(self.lines, self.lines_missed)


def _percent(of: int, missed: int) -> float:
    """Return a percentage rounded down: 100 means that nothing is missed."""
    return 10_000 * (of - missed) // max(of, 1) / 100 if of else 100.0


class File(NamedTuple):
    """What is measured of a module; ``missing`` are lines and jumps between lines."""

    figures: Count
    missing: list[str]


class Area(NamedTuple):
    """Modules with a bound: the percentage of branches and of lines, at least."""

    name: str
    paths: tuple[str, ...]
    least: float

    def total(self, files: Mapping[str, File]) -> Count:
        counts = [each.figures for path, each in files.items() if self.holds(path)]
        return Count(*(sum(column) for column in zip(*counts, strict=True)))

    def holds(self, path: str) -> bool:
        return path.startswith(self.paths)


AREAS = (
    Area("engine", ("engine/",), 100),
    Area(
        "worker protocol",
        (
            "runtime/worker_protocol/",
            "runtime/worker/",
            "adapters/worker_http/",
            "api/worker_protocol.py",
        ),
        100,
    ),
    Area("stores", ("adapters/stores/",), 95),
    Area("all of `src/noetl`", ("",), 95),
)


def count_files(measured: Coverage) -> dict[str, File]:
    """Return the figures of each module, by its path inside the package."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / "report.json"
        modules = [str(file) for file in sorted(PACKAGE.rglob("*.py"))]
        measured.json_report(morfs=modules, outfile=str(target))
        found = json.loads(target.read_text())["files"]
    result = {}
    for name, each in found.items():
        path = (Path.cwd() / name).resolve().relative_to(PACKAGE).as_posix()
        sums = each["summary"]
        names = ("num_statements", "missing_lines", "num_branches", "missing_branches")
        count = Count(*(sums[name] for name in names))
        result[path] = File(count, _missing(each))
    return result


def _missing(found: dict[str, list[int]]) -> list[str]:
    lines = found["missing_lines"]
    jumps: Iterable[tuple[int, int]] = found["missing_branches"]  # type: ignore[assignment]
    return _spans(lines) + [
        f"{start}->{end if end > 0 else 'exit'}"
        for start, end in jumps
        if end not in lines and start not in lines
    ]


def _spans(lines: list[int]) -> list[str]:
    spans: list[list[int]] = []
    for line in lines:
        if spans and line == spans[-1][1] + 1:
            spans[-1][1] = line
        else:
            spans.append([line, line])
    return [str(a) if a == b else f"{a}-{b}" for a, b in spans]


def print_missing(files: Mapping[str, File]) -> None:
    for path, (count, missing) in files.items():
        if missing:
            shares = f"{count.line_share:.2f} % {count.branch_share:.2f} %"
            print(f"{path}: {shares}: {', '.join(missing)}")


def report(areas: Iterable[Area], files: Mapping[str, File]) -> bool:
    """Print the figures of each area; return whether one is below its bound."""
    below = []
    print(f"{'':20}{'lines':>9}{'branches':>10}{'% lines':>9}{'% branches':>12}")
    for area in areas:
        count = area.total(files)
        lines = count.line_share
        figures = f"{count.lines:9,}{count.branches:10,}{lines:9.2f}"
        print(f"{area.name:20}{figures}{count.branch_share:12.2f}")
        if min(lines, count.branch_share) < area.least:
            missed = f"{count.lines_missed:,} lines, {count.branches_missed:,} branches"
            below.append(f"coverage: {area.name}: below {area.least:g} %: {missed}")
    for line in below:
        print(line, file=sys.stderr)
    return bool(below)


def find_exceptions(package: Path = PACKAGE) -> list[tuple[str, str, str]]:
    """Return module, code and reason of what is not counted; each has a reason."""
    found = []
    for file in sorted(package.rglob("*.py")):
        path = file.relative_to(package).as_posix()
        for number, line in enumerate(file.read_text("utf-8").splitlines(), start=1):
            if match := EXCEPTION.search(line):
                if not match[1]:
                    sys.exit(f"coverage: {path}:{number}: the exception has no reason")
                found.append((path, line[: match.start()].strip(), match[1]))
    return found
