"""Measures which branches of ``src/noetl`` tests take, and writes bench/COVERAGE.md.

    scripts/measure_coverage.py [--minutes N] [--workers N] [--report] [--list] [PART …]

The suite runs in parts: the folders of ``tests``, large ones in several. A part that
was measured is not run again while its tests and ``src`` are what they were, so an
interrupted run goes on. ``--minutes`` starts no part after that time, ``--report`` runs
none, ``--list`` prints what no test executes. What an older part says about a file of
``src`` counts only while that file is unchanged. The exit code is 1 if a figure is
below its bound, and 2 if parts are missing or older than their tests.

Processes that tests start are measured, too, unless they are killed, start without
their environment, or run another interpreter.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from coverage import Coverage, CoverageData
from coverage_figures import AREAS, PACKAGE, ROOT, count_files, print_missing, report
from coverage_page import write_page

TESTS = ROOT / "tests"
STATE = ROOT / "build" / "coverage"
FILES = 15
"""Test files of a part. Those of ``unit`` are cheap, and are one part."""
FIRST = ("unit", "contracts", "properties", "service", "simulation")
"""Folders that run first: they cover the engine and the worker protocol."""
CONFIG = f"""[run]
branch = true
parallel = true
source = {PACKAGE}
patch = subprocess, fork, _exit
disable_warnings = no-data-collected, module-not-imported, module-not-measured,
    already-imported, couldnt-parse
"""


HOOK = Path(sysconfig.get_path("purelib")) / "noetl_coverage.pth"
"""Starts the measurement in each process that a measured one starts: nothing else runs
at the start of Python, so the line is there for the time of a run only."""
START = (
    'import os; os.getenv("COVERAGE_PROCESS_CONFIG") '
    'and __import__("coverage").process_startup(slug="pth")\n'
)


class Part(NamedTuple):
    """Test files that run together."""

    name: str
    files: list[Path]

    @property
    def data(self) -> Path:
        return STATE / f"{self.name}.data"

    @property
    def record(self) -> dict[str, Any] | None:
        """Return what is known of the last run, if there was one."""
        try:
            found: dict[str, Any] = json.loads(
                self.data.with_suffix(".json").read_text()
            )
        except FileNotFoundError:
            return None
        return found

    def digest(self) -> str:
        """Return a digest of its tests and of what they import from ``support``."""
        return _digest([*self.files, *sorted((TESTS / "support").rglob("*.py"))])

    def is_fresh(self, sources: dict[str, str]) -> bool:
        record = self.record
        return (
            record is not None
            and record["sources"] == sources
            and record["tests"] == self.digest()
        )


def find_parts() -> list[Part]:
    folders = sorted({file.relative_to(TESTS).parts[0] for file in _test_files()})
    folders.sort(key=lambda name: FIRST.index(name) if name in FIRST else len(FIRST))
    return [part for folder in folders for part in _parts_of(folder)]


def _test_files() -> list[Path]:
    return sorted(TESTS.rglob("test_*.py"))


def _parts_of(folder: str) -> Iterator[Part]:
    files = [file for file in _test_files() if file.is_relative_to(TESTS / folder)]
    size = len(files) if folder == "unit" else FILES
    if len(files) <= size:
        yield Part(folder, files)
        return
    for number, first in enumerate(range(0, len(files), size), start=1):
        yield Part(f"{folder}-{number}", files[first : first + size])


def digest_sources() -> dict[str, str]:
    return {
        file.relative_to(PACKAGE).as_posix(): _digest([file])
        for file in sorted(PACKAGE.rglob("*.py"))
    }


def _digest(files: Iterable[Path]) -> str:
    content = hashlib.sha256()
    for file in files:
        content.update(file.read_bytes())
    return content.hexdigest()[:20]


def run_part(part: Part, sources: dict[str, str], workers: str) -> None:
    """Run the tests of a part, and keep what they executed and how they ended."""
    record: dict[str, Any] = {
        "sources": sources,
        "tests": part.digest(),
        "commit": _commit(),
        "date": time.strftime("%Y-%m-%d"),
    }
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="noetl-coverage-") as name:
        folder = Path(name)
        config = folder / "config"
        config.write_text(f"{CONFIG}data_file = {folder / 'data'}\n")
        pytest = f"-m pytest -q -n {workers} --dist worksteal"
        keep = ("-o", "tmp_path_retention_policy=failed")
        command = f"-m coverage run --rcfile={config} {pytest}".split()
        done = subprocess.run(
            [sys.executable, *command, *keep, *map(str, part.files)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        failed = re.findall(r"^(?:FAILED|ERROR) (\S+::\S+)", done.stdout, re.M)
        if done.returncode != (1 if failed else 0):
            sys.exit(f"{done.stdout[-4000:]}\ncoverage: part {part.name} did not end")
        for line in re.findall(r"^(?:FAILED|ERROR) .*", done.stdout, re.M):
            print(f"  {line[:200]}")
        fresh = part.data.with_suffix(".new")
        _add_up(folder.glob("data.*"), fresh)
    fresh.replace(part.data)
    record["seconds"] = round(time.monotonic() - began)
    record["result"] = done.stdout.splitlines()[-1].strip("= ")
    record["failed"] = failed
    part.data.with_suffix(".json").write_text(json.dumps(record))
    print(f"{part.name}: {record['result']}", flush=True)


def _add_up(files: Iterable[Path], target: Path) -> None:
    """Add up measurements. A process killed while it wrote leaves a broken one."""
    target.unlink(missing_ok=True)
    total = CoverageData(basename=str(target))
    for file in sorted(files):
        one = CoverageData(basename=str(file))
        try:
            one.read()
            total.update(one)
        except Exception as error:
            print(f"  one process is not counted: {error}")
        one.close()
    total.close()


def _commit() -> str:
    git = ["git", "describe", "--always", "--dirty=+", "--exclude=*"]
    done = subprocess.run(git, cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip() or "unknown"


def combine(parts: Iterable[Part], sources: dict[str, str]) -> Coverage:
    """Add up the parts, without what they say about files that changed since."""
    whole, copy = STATE / "whole.data", STATE / "copy.data"
    whole.unlink(missing_ok=True)
    total = CoverageData(basename=str(whole))
    for part in parts:
        record = part.record
        if record is None:
            continue
        shutil.copyfile(part.data, copy)
        one = CoverageData(basename=str(copy))
        one.read()
        before = record["sources"]
        one.purge_files(
            [
                str(PACKAGE / name)
                for name in before
                if sources.get(name) != before[name]
            ]
        )
        total.update(one)
        one.close()
        copy.unlink()
    total.close()
    config = STATE / "config"
    config.write_text(CONFIG)
    measured = Coverage(config_file=str(config), data_file=str(whole))
    measured.load()
    return measured


def main() -> int:
    options = read_options()
    STATE.mkdir(parents=True, exist_ok=True)
    parts, sources = find_parts(), digest_sources()
    if unknown := set(options.parts) - {part.name for part in parts}:
        sys.exit(f"coverage: no part {min(unknown)}; parts: {_names(parts)}")
    ends = time.monotonic() + 60 * options.minutes
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("coverage: interrupted"))
    try:
        for part in [] if options.report else parts:
            is_asked = not options.parts or part.name in options.parts
            if is_asked and not part.is_fresh(sources) and time.monotonic() < ends:
                HOOK.write_text(START)
                run_part(part, sources, options.workers)
    finally:
        HOOK.unlink(missing_ok=True)
    files = count_files(combine(parts, sources))
    if options.list:
        print_missing(files)
    below = report(AREAS, files)
    stale = [part for part in parts if not part.is_fresh(sources)]
    records = {part.name: part.record or {} for part in parts}
    write_page(files, records, {part.name for part in stale})
    if stale:
        print(f"coverage: not measured as they are: {_names(stale)}", file=sys.stderr)
    return 2 if stale else 1 if below else 0


def _names(parts: Iterable[Part]) -> str:
    return " ".join(part.name for part in parts)


def read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART")
    parser.add_argument("--minutes", type=float, default=float("inf"))
    parser.add_argument("--workers", default="2")
    parser.add_argument("--report", action="store_true")
    parser.add_argument("--list", action="store_true")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
