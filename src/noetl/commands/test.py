"""``noetl test``: tests of playbooks with scripted tools and virtual time."""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from pathlib import Path
from time import perf_counter

import click

from noetl.adapters.catalogs.files import paths_in, version_order
from noetl.adapters.processes.code_inspection import inspect_code
from noetl.adapters.processes.limits import read_timeout
from noetl.commands.files.playbook_files import (
    SourceFile,
    find_playbooks,
    is_playbook,
    read_file,
)
from noetl.commands.output.test_results import (
    Judged,
    Report,
    as_json,
    show_coverage,
    show_report,
    show_summary,
    to_junit,
)
from noetl.commands.settings import pass_settings
from noetl.config import Settings, read_extensions, read_plugins
from noetl.dialects import load
from noetl.dsl.load import Loaded
from noetl.dsl.model import Playbook
from noetl.dsl.tool_kinds import Kinds
from noetl.engine.tasks.outcome import Failure, Outcome
from noetl.engine.tasks.pipeline import Call
from noetl.errors import ConfigError, ToolError
from noetl.ports import ToolCall
from noetl.testing.check_names import check_references
from noetl.testing.coverage import Coverages
from noetl.testing.model import Case
from noetl.testing.parse import parse_suite
from noetl.testing.run_case import Trial
from noetl.testing.script import refuse_real
from noetl.testing.verdict import Verdict, judge_case


class Library:
    """Playbooks in the folder of a playbook under test and below, which it may call."""

    def __init__(self, folder: Path, kinds: Kinds, extensions: frozenset[str]) -> None:
        self._folder = folder
        self._kinds = kinds
        self._extensions = extensions

    def find(self, path: str, version: str | None) -> Playbook | Failure:
        """Find a playbook; without ``version`` the latest one (S-43)."""
        fitting = [
            loaded
            for loaded in self._loaded.get(path, ())
            if version is None
            or (loaded.playbook and loaded.playbook.version == version)
        ]
        if not fitting:
            which = f" in version {version}" if version else ""
            message = f"no playbook '{path}'{which} in {self._folder}"
            return Failure("playbook.not_found", message)
        found = max(fitting, key=version_order)
        if found.playbook is None:
            first = next(each for each in found.diagnostics if each.severity == "error")
            message = f"playbook '{path}' is not valid: {first.message}"
            return Failure("playbook.invalid", message)
        return found.playbook

    def latest(self, path: str) -> Playbook | None:
        found = self.find(path, None)
        return found if isinstance(found, Playbook) else None

    @cached_property
    def _loaded(self) -> dict[str, list[Loaded]]:
        found: dict[str, list[Loaded]] = {}
        files, _ = find_playbooks([str(self._folder)])
        for file in files:
            for path in paths_in(file.content):
                loaded = load(
                    file.content, self._kinds, self._extensions, inspect=inspect_code
                )
                found.setdefault(path, []).append(loaded)
        return found


REAL_S = 10.0
"""Seconds that a real call of a test may take."""


class RealPython:
    """Calls Python code of playbooks in a process with the limits of ``noetl run``."""

    def __init__(self) -> None:
        from noetl.adapters.tools.python import PythonTool

        self._loop = asyncio.new_event_loop()
        self._tool = PythonTool(1)

    def call(self, folder: str, call: Call) -> Outcome:
        """Make a call of a playbook in a folder."""
        try:
            most = read_timeout(call.spec) or REAL_S
            made = ToolCall(
                kind="python",
                inputs=call.inputs,
                spec={**call.spec, "timeout": min(most, REAL_S)},
                execution_id="test",
                step="test",
                task=call.task.label,
                action_id=call.action_id,
                attempt=call.attempt,
                folder=folder,
            )
            return self._loop.run_until_complete(self._tool.run(made))
        except ToolError as error:
            return Outcome.failed(
                error.kind,
                error.message,
                retryable=error.retryable,
                details=error.details,
            )

    def close(self) -> None:
        self._loop.run_until_complete(self._tool.close())
        self._loop.close()


SUFFIXES = (".test.yaml", ".test.yml")


@click.command("test")
@click.argument("paths", nargs=-1, required=True, metavar="PATH…")
@click.option("-k", "text", metavar="TEXT", help="Only cases with this in their name.")
@click.option(
    "--seed", type=click.IntRange(0), metavar="N", help="Only schedule N of each case."
)
@click.option("--coverage", is_flag=True, help="Show unreached steps, arcs and rules.")
@click.option("--no-code", is_flag=True, help="Fail cases that call Python code.")
@click.option("--junit", metavar="FILE", help="Write the results as JUnit XML.")
@click.option("--extensions", metavar="NAMES", help="Dialects: legacy,classic.")
@click.option("--json", "json_", is_flag=True, help="Print one JSON document.")
@pass_settings
def command(
    settings: Settings,
    paths: tuple[str, ...],
    text: str | None,
    seed: int | None,
    coverage: bool,
    no_code: bool,
    junit: str | None,
    extensions: str | None,
    json_: bool,
) -> None:
    """Test playbooks with scripted tools and virtual time; no real tool is called,
    except Python code whose answer is `real: true`.

    PATH is a test file (x.test.yaml beside x.yaml), a playbook that has one, or a
    folder to be searched for test files. Exit code: 0 all passed, 1 a case failed, 2
    a test file or its playbook is wrong, or there is nothing to test.

    \b
    Examples:
      noetl test playbooks/
      noetl test orders.test.yaml -k refund --seed 7
      noetl test --coverage --junit results.xml playbooks/
    """
    kinds = read_plugins(settings).kinds
    examiner = Examiner(
        kinds, read_extensions(extensions, settings), text or "", seed, code=not no_code
    )
    files = [read_file(name) for name in find_tests(paths)]
    gc.freeze()  # loaded modules stay; the runs leave cycles to collect
    gc.enable()
    began = perf_counter()
    try:
        reports = [examiner.run(file) for file in files]
    finally:
        examiner.close()
    seconds = perf_counter() - began
    if not any(report.verdicts or report.wrong for report in reports):
        wanted = f" with '{text}' in its name" if text else ""
        raise ConfigError(f"no case{wanted} in {', '.join(paths)}")
    covered = examiner.coverages.by_path if coverage else None
    if junit is not None:
        _write_junit(junit, reports)
    if json_:
        click.echo(json.dumps(as_json(reports, seconds, covered), ensure_ascii=False))
    else:
        for report in reports:
            if report.verdicts or report.wrong:
                show_report(report)
        show_summary(reports, seconds)
        if covered is not None:
            show_coverage(covered)
    sys.exit(_exit_code(reports))


def _exit_code(reports: Sequence[Report]) -> int:
    if any(report.wrong is not None for report in reports):
        return 2
    return 0 if all(report.passed for report in reports) else 1


def find_tests(paths: Sequence[str]) -> list[str]:
    """Find named test files, and those in folders. Raises ``ConfigError``."""
    found: dict[str, None] = {}
    for name in paths:
        if os.path.isdir(name):
            below = sorted(Path(name).rglob("*.test.y*ml"))
            found.update({str(each): None for each in below if _is_test(each.name)})
        elif not _is_test(name) and is_playbook(read_file(name).content):
            found[_tests_of(name)] = None
        else:
            found[name] = None
    if not found:
        raise ConfigError(f"no test file (*.test.yaml) in {', '.join(paths)}")
    return list(found)


def _is_test(name: str) -> bool:
    return name.endswith(SUFFIXES)


def _tests_of(playbook: str) -> str:
    stem = str(Path(playbook).with_suffix(""))
    for suffix in SUFFIXES:
        if os.path.isfile(stem + suffix):
            return stem + suffix
    raise ConfigError(f"{playbook} has no tests: {stem}{SUFFIXES[0]} does not exist")


class Examiner:
    """Runs test files, and collects their coverage."""

    def __init__(
        self,
        kinds: Kinds,
        extensions: frozenset[str],
        text: str,
        seed: int | None,
        *,
        code: bool = True,
    ) -> None:
        self.coverages = Coverages()
        self._kinds = kinds
        self._extensions = extensions
        self._text = text.lower()
        self._seed = seed
        self._code = code

    def run(self, file: SourceFile) -> Report:
        report = Report(file)
        for case, judge in self.cases(report):
            if self._text in case.name.lower():
                began = perf_counter()
                report.verdicts.append((judge(), perf_counter() - began))
        return report

    def cases(self, report: Report) -> list[tuple[Case, Callable[[], Verdict]]]:
        """Return the cases of a file, each with what runs and judges it; none if the
        report says what is wrong with the file."""
        file = report.file
        suite, report.diagnostics = parse_suite(file.content)
        if suite is None:
            report.wrong = file
            return []
        named = suite.playbook.node.value if suite.playbook is not None else None
        report.playbook = _playbook_of(file.name, named)
        source = _read_playbook(report.playbook, file.name, named)
        loaded = load(
            source.content, self._kinds, self._extensions, inspect=inspect_code
        )
        if loaded.playbook is None:
            report.wrong, report.diagnostics = source, loaded.diagnostics
            return []
        folder = Path(report.playbook).parent
        library = Library(folder, self._kinds, self._extensions)
        report.diagnostics = check_references(suite, loaded.playbook, library.latest)
        if report.diagnostics:
            report.wrong = file
            return []
        here = str(folder.resolve())
        real = (
            (lambda call: self._python.call(here, call)) if self._code else refuse_real
        )
        trials = [
            Trial(case, loaded.playbook, library.find, real) for case in suite.cases
        ]
        return [(trial.case, partial(self._judge, trial)) for trial in trials]

    def _judge(self, trial: Trial) -> Verdict:
        return judge_case(trial, self._seeds(trial.case), self.coverages.note)

    @cached_property
    def _python(self) -> RealPython:
        return RealPython()

    def close(self) -> None:
        """End the process of real calls."""
        if "_python" in self.__dict__:
            self._python.close()

    def _seeds(self, case: Case) -> range:
        if self._seed is not None:
            return range(self._seed, self._seed + 1)
        return range(case.schedules)


def _playbook_of(test: str, named: str | None) -> str:
    """Return the playbook of a test file: the named one, or the one beside it."""
    if named is not None:
        return str(Path(test).parent / named)
    for suffix in SUFFIXES:
        if test.endswith(suffix):
            return test.removesuffix(suffix) + suffix.removeprefix(".test")
    raise ConfigError(f"{test}: its playbook is unknown; add playbook: FILE")


def _read_playbook(name: str, test: str, named: str | None) -> SourceFile:
    try:
        return read_file(name)
    except ConfigError as error:
        hint = "" if named else "; name it: playbook: FILE"
        raise ConfigError(f"{test}: its playbook {error}{hint}") from None


def _write_junit(name: str, reports: Sequence[Report]) -> None:
    tested = [
        Judged(report.file.name, report.verdicts, report.diagnostics)
        for report in reports
    ]
    try:
        Path(name).write_text(to_junit(tested), encoding="utf-8")
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(f"{name}: cannot be written: {reason}") from None
