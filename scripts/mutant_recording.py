"""Records the lines of NoETL that each test executes, and selects tests by them."""

from __future__ import annotations

import hashlib
import os
import pickle
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, NamedTuple

from mutant_forks import Forks
from mutants import Mutant

if TYPE_CHECKING:
    from mutant_tests import Runner

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "noetl"
RECORDED = ROOT / "build" / "mutants" / "recorded.pickle"
FOLDERS = (
    "tests/unit/adapters/stores",
    "tests/unit/dialects",
    "tests/unit/engine",
    "tests/unit/report",
    "tests/unit/runtime",
    "tests/unit/testing",
    "tests/contracts",
    "tests/properties/engine",
    "tests/properties/test_determinism.py",
    "tests/properties/test_engine_vs_reference.py",
    "tests/properties/test_forks.py",
    "tests/properties/test_payloads.py",
    "tests/properties/test_tallies.py",
    "tests/adapters/servers/test_answers.py",
    "tests/cluster",
    "tests/hostile/test_rows.py",
    "tests/security/test_reported_handles.py",
    "tests/security/test_worker_port.py",
    "tests/simulation/test_simulation.py",
)
SLOW = 4.0
"""CPU seconds of a test that is not run against mutants."""
MOST = 4.0
"""CPU seconds of the tests that one mutant gets; the fastest tests come first."""
MOST_AGAIN = 30.0
"""The same for a mutant that survived before."""
BROAD = 60
"""Tests of a module without functions: those with most modules for their time."""
OFTEN = 25
"""Calls of a function that one test traces line by line."""
RECORDING = 300.0
"""CPU seconds of the recording of one file."""


class Lines(NamedTuple):
    """Lines of one module as the bits of a number."""

    bits: int

    def meet(self, first: int, last: int) -> bool:
        return bool(self.bits >> first & (1 << (last - first + 1)) - 1)


class Test(NamedTuple):
    """One recorded test: its CPU seconds, and per module the lines that it executes."""

    name: str
    seconds: float
    lines: dict[str, Lines]

    @property
    def limit(self) -> float:
        """The CPU seconds after which the test does not end."""
        return 4 * self.seconds + 2

    @property
    def file(self) -> str:
        return self.name.partition("::")[0]


class Recording(NamedTuple):
    """All tests by file; ``stamps`` has names and hashes of the files that they ran."""

    stamps: dict[str, set[tuple[str, str]]]
    tests: dict[str, list[Test]]
    imported: dict[str, Lines]

    def select(
        self, module: str, mutant: Mutant, first: Iterable[str], most: float = MOST
    ) -> list[Test]:
        """Return the tests for a mutant: those named in ``first``, then those that
        need no PostgreSQL, the fastest ones first."""
        known = [test for tests in self.tests.values() for test in tests]
        found = [test for test in known if module in test.lines]
        if mutant.scope.is_function:
            span = mutant.first, mutant.last
            found = [test for test in found if test.lines[module].meet(*span)]
        elif not found:  # no function, and every import runs it
            return sorted(known, key=lambda test: -len(test.lines) / test.limit)[:BROAD]
        favourites = set(first)
        found.sort(
            key=lambda test: (
                test.name not in favourites,
                "postgres" in test.name or test.name.startswith("tests/cluster"),
                test.seconds,
            )
        )
        total = 0.0
        chosen: list[Test] = []
        for test in found:
            total += test.seconds
            if total > most and chosen:
                break
            chosen.append(test)
        return chosen


class Tracer:
    """Collects the executed lines of modules, of all threads.

    A function that is called often costs no more after ``OFTEN`` calls: from then on
    all of its lines count as executed.
    """

    def __init__(self, modules: Iterable[str]) -> None:
        self._modules = {str(PACKAGE / module): module for module in modules}
        self._seen: dict[str, set[int]] = defaultdict(set)
        self._calls: Counter[CodeType] = Counter()

    def start(self) -> None:
        threading.settrace(self._call)
        sys.settrace(self._call)

    def stop(self) -> dict[str, Lines]:
        sys.settrace(None)
        threading.settrace(None)
        seen, self._seen = self._seen, defaultdict(set)
        for code, count in self._calls.items():
            if count > OFTEN:
                lines = {line for *_, line in code.co_lines() if line is not None}
                seen[self._modules[code.co_filename]] |= lines
        self._calls.clear()
        return {
            module: Lines(sum(1 << line for line in lines))
            for module, lines in seen.items()
        }

    def _call(self, frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        module = self._modules.get(code.co_filename)
        if module is None:
            return None
        self._calls[code] += 1
        if self._calls[code] > OFTEN:
            return None
        add = self._seen[module].add
        if code.co_name != "<module>":
            add(frame.f_lineno)

        def line(frame: FrameType, event: str, argument: Any) -> Any:
            add(frame.f_lineno)
            return line

        return line


def record(
    runner: Runner, files: Iterable[str], tracer: Tracer, forks: Forks
) -> Iterator[tuple[str, list[Test]]]:
    """Run the tests of each file in a fork with a tracer; yield what they executed.

    A test that failed has negative seconds.
    """
    names: dict[str, list[str]] = {file: [] for file in files}
    for name in runner.items:
        names.get(name.partition("::")[0], []).append(name)
    for file, tests in names.items():
        yield from _recorded(forks, most=forks.count - 1)
        forks.start(file, partial(_record, runner, tests, tracer, forks), RECORDING)
    yield from _recorded(forks, most=0)


def _recorded(forks: Forks, most: int) -> Iterator[tuple[str, list[Test]]]:
    for file, pid, _, _ in forks.wait(most):
        out = forks.scratch / f"recorded-{pid}"
        if not out.exists():
            print("mutate: cannot be recorded:", file, flush=True)
            continue
        yield file, pickle.loads(out.read_bytes())
        out.unlink()


def _record(
    runner: Runner, names: Sequence[str], tracer: Tracer, forks: Forks, slot: int
) -> int:
    found = []
    for name in names:
        tracer.start()
        began = time.process_time()
        failed = runner.run(
            {name: RECORDING}, forks.scratch / str(slot), forks.ports[slot]
        )
        seconds = time.process_time() - began
        found.append(Test(name, -seconds if failed else seconds, tracer.stop()))
    (forks.scratch / f"recorded-{os.getpid()}").write_bytes(pickle.dumps(found))
    return 0


class Recordings:
    """The stored recording, and the test files for which it is out of date."""

    def __init__(self, modules: Iterable[str]) -> None:
        self.recording = Recording({}, {}, {})
        if RECORDED.exists():
            self.recording = pickle.loads(RECORDED.read_bytes())
        self._stamps = {module: stamp(PACKAGE / module) for module in modules}
        tests = {str(path): stamp_test(path) for path in find_tests()}
        self._stamps |= tests
        seen = self.recording.stamps
        for file in seen.keys() - tests.keys():
            del self.recording.tests[file], seen[file]
        self._added = 0
        self.stale = {
            file
            for file in tests
            if file not in seen
            or any(self._stamps.get(name, old) != old for name, old in seen[file])
        }

    def note_imports(self, imported: dict[str, Lines]) -> None:
        if imported:
            self.recording = self.recording._replace(imported=imported)

    def add(self, file: str, found: list[Test]) -> None:
        """Take over the tests of a file; those that fail or last are left out."""
        for test in found:
            if test.seconds < 0:
                print("fails without a mutant:", test.name, flush=True)
        good = [test for test in found if 0 <= test.seconds < SLOW]
        names = {file, *(name for test in good for name in test.lines)}
        self.recording.tests[file] = good
        self.recording.stamps[file] = {(name, self._stamps[name]) for name in names}
        self._added += 1
        if self._added % 10 == 0:
            self.save()

    def save(self) -> None:
        RECORDED.write_bytes(pickle.dumps(self.recording))


def find_tests() -> Iterator[Path]:
    for folder in FOLDERS:
        path = Path(folder)
        yield from [path] if path.is_file() else path.rglob("test_*.py")


def stamp_test(path: Path) -> str:
    """Return a hash of a test file and of the fixtures around it."""
    folders = [each / "conftest.py" for each in path.parents]
    return stamp(*[each for each in folders if each.exists()], path)


def stamp(*paths: Path) -> str:
    return hashlib.sha256(b"".join(p.read_bytes() for p in paths)).hexdigest()[:16]
