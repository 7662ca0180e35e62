#!/usr/bin/env python
"""Tests the tests: makes small mistakes in the code and looks whether a test fails.

scripts/mutate.py --sample 1000          the first 1,000 mutants of a fixed random order
scripts/mutate.py --part engine          only mutants of the engine
scripts/mutate.py --again                judge survivors again, after writing tests
scripts/mutate.py --only loops.py:plan   mutants whose name has this text
scripts/mutate.py --table                no run: write bench/MUTANTS.md

A run goes on where the last one stopped: bench/mutants/verdicts.jsonl has what is
judged. It ends with exit code 1 if a score is below 90 % or a survivor has no reason.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tests" / "support")]

from mutant_forks import KILLED, Forks, Server, die_with_parent  # noqa: E402
from mutant_recording import (  # noqa: E402
    FOLDERS,
    MOST,
    MOST_AGAIN,
    PACKAGE,
    Recording,
    Recordings,
    Test,
    Tracer,
    record,
)
from mutant_tests import Functions, Runner, import_mutant, run_pytest  # noqa: E402
from mutant_verdicts import (  # noqa: E402
    ALIVE,
    PARTS,
    UNKNOWN,
    Verdicts,
    expand,
    find_modules,
    read_reasons,
    stale,
    summarize,
    write_page,
)
from mutants import Mutant, Source  # noqa: E402

BUILD = ROOT / "build" / "mutants"
JUDGED = BUILD / "judged.jsonl"
SHOWN = 20
SURVIVED = 10
COLD = 11
"""Exit code of a fork whose mutant cannot be installed into imported modules."""
CONTROL = 40
"""After this number of mutants the tests of one run without any change."""
WARM = 0.7
"""Share of the time of a run that belongs to warm forks."""
FILES = 5
"""Test files that a cold fork imports first."""
PRELOADED = [
    *("aiohttp", "asyncio", "asyncpg", "click", "cryptography.fernet", "hypothesis"),
    *("jinja2", "jsonschema_rs", "msgspec", "prometheus_client", "rich.console"),
    *("sqlite3", "starlette.applications", "uvicorn", "yaml", "zstandard"),
]
"""What a cold fork need not import again."""


def main() -> int:
    asked = parse(sys.argv[1:])
    os.chdir(ROOT)
    os.environ.setdefault("PLAYBOOK_SEED", "mutants")
    BUILD.mkdir(parents=True, exist_ok=True)
    sources = {
        path: Source(path, (PACKAGE / path).read_text(encoding="utf-8"))
        for path in find_modules(PACKAGE)
    }
    verdicts = Verdicts(sources)
    merge(verdicts)
    if not asked.table:
        names = choose(asked, verdicts)
        print(f"{len(names):,} mutants to judge", flush=True)
        Campaign(asked, sources, names).run()
        merge(verdicts)
    patterns = read_reasons()
    reasons = expand(patterns, verdicts)
    write_page(verdicts, reasons)
    table, wrong = summarize(verdicts, reasons)
    wrong += stale(verdicts, patterns)
    print("\n".join([table, *wrong[:SHOWN]]))
    if len(wrong) > SHOWN:
        print(f"and {len(wrong) - SHOWN:,} more")
    return 1 if wrong else 0


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--part", choices=PARTS, help="only mutants of this part")
    parser.add_argument("--sample", type=int, help="judge this number of mutants")
    parser.add_argument("--only", default="", help="only names with this text")
    parser.add_argument("--again", action="store_true", help="judge survivors again")
    parser.add_argument("--fresh", action="store_true", help="judge all of them again")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seconds", type=float, default=86400, help="stop then")
    parser.add_argument("--table", action="store_true", help="write the table")
    return parser.parse_args(arguments)


def choose(asked: argparse.Namespace, verdicts: Verdicts) -> list[str]:
    """Return the names of mutants to judge, in an order that is random and fixed."""
    paths = PARTS.get(asked.part, ("",))
    names = [n for n in verdicts.letters if n.startswith(paths) and asked.only in n]
    names.sort(key=lambda name: hashlib.sha256(name.encode()).digest())
    names = names[: asked.sample]
    reasons = expand(read_reasons(), verdicts)
    if asked.again:
        return [n for n in names if verdicts.letters[n] in ALIVE and n not in reasons]
    return [n for n in names if asked.fresh or verdicts.letters[n] == UNKNOWN]


def merge(verdicts: Verdicts) -> None:
    """Move the verdicts of a run, also of an interrupted one, into the stored file."""
    if JUDGED.exists():
        for line in JUDGED.read_text().splitlines():
            found = json.loads(line)
            mutant = verdicts.mutants.get(found["name"])
            if mutant is not None and mutant.scope.digest == found["digest"]:
                verdicts.set(found["name"], found["letter"])
        verdicts.save()
        JUDGED.unlink()


class Verdict(NamedTuple):
    """``letter`` is k(illed), t(imeout), s(urvived) or n(ot executed by any test)."""

    letter: str
    killer: str
    seconds: float


class Campaign:
    """Judges mutants: in forks of a warm process, then in cold ones."""

    def __init__(
        self, asked: argparse.Namespace, sources: dict[str, Source], names: list[str]
    ) -> None:
        self._jobs = asked.jobs
        self._until = time.monotonic() + asked.seconds
        self._until_cold = self._until - (1 - WARM) * asked.seconds
        self._most = MOST_AGAIN if asked.again else MOST
        self._sources = sources
        by_name = {m.name: m for source in sources.values() for m in source.mutants}
        self._mutants = {name: by_name[name] for name in names}
        self._killers: dict[str, list[str]] = defaultdict(list)
        self._rest: dict[str, list[list[Test]]] = {}
        self._later: list[tuple[Mutant, list[list[Test]]]] = []

    def run(self) -> None:
        for name in PRELOADED:
            import_module(name)
        with tempfile.TemporaryDirectory(prefix="mutants-") as scratch:
            self._scratch = Path(scratch)
            servers = [Server() for _ in range(self._jobs)]
            self._ports = [server.port for server in servers]
            try:
                self._in_fork(self._warm)
                self._cold()
            finally:
                for server in servers:
                    server.stop()

    @staticmethod
    def _in_fork(work: object) -> None:
        pid = os.fork()
        if not pid:
            code = 1
            die_with_parent()
            try:
                work()  # type: ignore[operator]
                code = 0
            finally:
                sys.stdout.flush()
                os._exit(code)
        if os.waitpid(pid, 0)[1]:
            sys.exit("mutate: the run failed")

    # warm forks

    def _warm(self) -> None:
        known = Recordings(self._sources)
        tracer = Tracer(self._sources) if known.stale else None

        def job(runner: Runner) -> None:
            known.note_imports(runner.imported)
            patient = Forks(self._ports, self._scratch, stuck=100)
            for each in record(runner, known.stale, Tracer(self._sources), patient):
                known.add(*each)
            known.save()
            forks = Forks(self._ports, self._scratch)
            self._judge_warm(runner, known.recording, forks)

        run_pytest(Runner(job, tracer), FOLDERS)

    def _judge_warm(self, runner: Runner, recording: Recording, forks: Forks) -> None:
        functions = Functions()
        waiting = list(self._mutants.values())
        for number, mutant in enumerate(waiting):
            if time.monotonic() > self._until_cold:
                break
            module = mutant.name.partition(":")[0]
            imported = recording.imported.get(module)
            if not mutant.scope.is_function or (
                imported and imported.meet(mutant.first, mutant.last)
            ):
                continue
            tests = self._tests_of(recording, mutant)
            if not tests:
                self._note(mutant, Verdict("n", "", 0.0))
                continue
            is_control = number % CONTROL == CONTROL - 1
            for what in (None, mutant) if is_control else (mutant,):
                self._collect(forks, self._jobs - 1)
                work = partial(self._run_warm, runner, functions, what, tests)
                limit = sum(test.limit for test in tests)
                forks.start((what, mutant), work, limit)
        self._collect(forks, 0)

    def _tests_of(self, recording: Recording, mutant: Mutant) -> list[Test]:
        module = mutant.name.partition(":")[0]
        scope = f"{module}:{mutant.scope.name}"
        favourites = [*self._killers[scope][-5:], *self._killers[module][-5:]]
        return recording.select(module, mutant, favourites, self._most)

    def _run_warm(
        self,
        runner: Runner,
        functions: Functions,
        mutant: Mutant | None,
        tests: list[Test],
        slot: int,
    ) -> int:
        if mutant is not None:
            source = self._sources[mutant.name.partition(":")[0]]
            if not functions.install(source, mutant):
                return COLD
        return self._run_tests(runner, tests, slot)

    def _run_tests(self, runner: Runner, tests: list[Test], slot: int) -> int:
        folder = self._scratch / str(slot)
        limits = {test.name: test.limit for test in tests}
        try:
            killer = runner.run(limits, folder, self._ports[slot])
        except BaseException as error:
            killer = f"{type(error).__name__}"
        if killer is None:
            return SURVIVED
        (self._scratch / f"killer-{os.getpid()}").write_text(killer)
        return KILLED

    def _collect(self, forks: Forks, most: int) -> None:
        """Note the verdicts of forks that ended, until at most ``most`` run."""
        for (what, mutant), pid, status, seconds in forks.wait(most):
            code = os.waitstatus_to_exitcode(status)
            said = self._scratch / f"killer-{pid}"
            killer = said.read_text() if said.exists() else ""
            said.unlink(missing_ok=True)
            if what is None:
                if code != SURVIVED:
                    print("control: fails without a change:", killer or code)
                continue
            if code == COLD:
                self._note(mutant, None)
                continue
            rest = self._rest.pop(mutant.name, None)
            if code == SURVIVED and rest:
                self._later.append((mutant, rest))
                continue
            letter = {SURVIVED: "s", KILLED: "k"}.get(code, "t")
            if killer:
                scope = f"{mutant.name.partition(':')[0]}:{mutant.scope.name}"
                self._killers[scope].append(killer)
                self._killers[mutant.name.partition(":")[0]].append(killer)
            self._note(mutant, Verdict(letter, killer, seconds))

    def _note(self, mutant: Mutant, verdict: Verdict | None) -> None:
        """Write one verdict down at once; none says that a cold fork is needed."""
        line = {
            "name": mutant.name,
            "digest": mutant.scope.digest,
            "letter": verdict.letter if verdict else UNKNOWN,
            "killer": verdict.killer if verdict else "",
            "seconds": round(verdict.seconds, 3) if verdict else 0,
        }
        with JUDGED.open("a") as file:
            file.write(json.dumps(line) + "\n")
        with (BUILD / "all.jsonl").open("a") as file:
            file.write(json.dumps(line) + "\n")

    # cold forks

    def _cold(self) -> None:
        judged = set()
        if JUDGED.exists():
            lines = [json.loads(line) for line in JUDGED.read_text().splitlines()]
            judged = {each["name"] for each in lines if each["letter"] != UNKNOWN}
        recording = Recordings(self._sources).recording
        forks = Forks(self._ports, self._scratch)
        left = [each for name, each in self._mutants.items() if name not in judged]
        for mutant in left:
            if time.monotonic() > self._until:
                break
            tests = self._tests_of(recording, mutant)
            if not tests:
                self._note(mutant, Verdict("n", "", 0.0))
                continue
            module = mutant.name.partition(":")[0]
            parts = split(tests, module)
            self._start_cold(forks, mutant, parts)
            while self._later:
                self._start_cold(forks, *self._later.pop())
        self._collect(forks, 0)
        while self._later:
            self._start_cold(forks, *self._later.pop())
            self._collect(forks, 0)

    def _start_cold(
        self, forks: Forks, mutant: Mutant, parts: list[list[Test]]
    ) -> None:
        """Run the first tests for a mutant; if it survives them, the others follow."""
        self._collect(forks, self._jobs - 1)
        if len(parts) > 1:
            self._rest[mutant.name] = parts[1:]
        limit = sum(test.limit for test in parts[0]) + 20
        work = partial(self._run_cold, mutant, parts[0])
        forks.start((mutant, mutant), work, limit)

    def _run_cold(self, mutant: Mutant, tests: list[Test], slot: int) -> int:
        module = mutant.name.partition(":")[0]
        import_mutant(self._sources[module], mutant)
        codes = [KILLED]  # if the tests cannot be collected

        def job(runner: Runner) -> None:
            codes[0] = self._run_tests(runner, tests, slot)

        with suppress(RuntimeError):  # the tests cannot be imported with the mutant
            run_pytest(Runner(job, None), sorted({test.file for test in tests}))
        return codes[0]


def split(tests: list[Test], module: str) -> list[list[Test]]:
    """Return the tests of the files that execute most of a module, and the others."""
    weights: Counter[str] = Counter()
    for test in tests:
        lines = test.lines.get(module)
        weights[test.file] += lines.bits.bit_count() if lines else 1
    first = {file for file, _ in weights.most_common(FILES)}
    parts = [
        [test for test in tests if test.file in first],
        [test for test in tests if test.file not in first],
    ]
    return [part for part in parts if part]


if __name__ == "__main__":
    sys.exit(main())
