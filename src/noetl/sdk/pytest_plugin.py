"""pytest plug-in: collects tests of playbooks, and brings fixtures for the Python API.

A file ``x.test.yaml`` is collected like a module, and each of its cases like a test, so
``-k``, ``-n``, ``--lf`` and reports work. ``-p no:noetl`` switches the plug-in off.
Nothing of NoETL is imported before a test needs it.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from noetl.commands.output.test_results import Report
    from noetl.sdk.client import Client
    from noetl.sdk.execution import Execution
    from noetl.testing.verdict import Verdict

SUFFIXES = (".test.yaml", ".test.yml")
START_S = 60.0
"""Seconds that a server may take to start."""


def pytest_collect_file(
    file_path: Path, parent: pytest.Collector
) -> PlaybookTests | None:
    if file_path.name.endswith(SUFFIXES):
        return PlaybookTests.from_parent(parent, path=file_path)
    return None


class PlaybookTests(pytest.File):
    """A test file of a playbook."""

    def collect(self) -> Iterator[PlaybookCase]:
        from noetl.commands.files.playbook_files import read_file
        from noetl.commands.output.test_results import Report
        from noetl.errors import NoetlError

        try:
            report = Report(read_file(str(self.path)))
            cases = _examiner(self.config).cases(report)
        except NoetlError as error:
            raise self.CollectError(str(error)) from None
        if report.wrong is not None:
            raise self.CollectError(_diagnostics(report))
        for case, judge in cases:
            item = PlaybookCase.from_parent(self, name=case.name)
            item.case = (report, case.at.mark[0], judge)
            yield item


class PlaybookCase(pytest.Item):
    """One case of a test file."""

    case: tuple[Report, int, Callable[[], Verdict]]

    def runtest(self) -> None:
        report, _, judge = self.case
        verdict = judge()
        if not verdict.passed:
            raise CaseFailed(report, verdict)

    def repr_failure(
        self, excinfo: pytest.ExceptionInfo[Any], style: Any = None
    ) -> Any:
        if isinstance(excinfo.value, CaseFailed):
            return str(excinfo.value)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        return self.path, self.case[1] - 1, self.name


class CaseFailed(AssertionError):
    """A case whose run differs from what it expects."""

    def __init__(self, report: Report, verdict: Verdict) -> None:
        import click

        from noetl.commands.output.test_results import failure_lines

        lines = failure_lines(report, verdict, report.file.lines)
        super().__init__(click.unstyle("\n".join(lines)))


_EXAMINER = pytest.StashKey[Any]()


def _examiner(config: pytest.Config) -> Any:
    """Return what runs the cases of this session."""
    if _EXAMINER not in config.stash:
        from noetl.commands.test import Examiner
        from noetl.config import read_extensions, read_plugins, read_settings

        settings = read_settings()
        kinds = read_plugins(settings).kinds
        made = Examiner(kinds, read_extensions(None, settings), "", None)
        config.add_cleanup(made.close)
        config.stash[_EXAMINER] = made
    return config.stash[_EXAMINER]


def _diagnostics(report: Report) -> str:
    import click

    from noetl.commands.output.diagnostics import format_diagnostic

    assert report.wrong is not None
    lines, name = report.wrong.lines, report.wrong.name
    shown = [format_diagnostic(each, name, lines) for each in report.diagnostics]
    return click.unstyle("\n".join(shown))


class Run(Protocol):
    """``noetl.run`` with a home of the test."""

    def __call__(
        self, playbook: Any, workload: Mapping[str, Any] | None = None, **options: Any
    ) -> Execution: ...


@pytest.fixture
def noetl_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home of this test alone; commands that the test starts use it, too."""
    home = tmp_path / "noetl-home"
    monkeypatch.setenv("NOETL_HOME", str(home))
    return home


@pytest.fixture
def noetl_run(noetl_home: Path) -> Run:
    """``noetl.run``, with the log in the home of this test."""
    import noetl

    def run(
        playbook: Any, workload: Mapping[str, Any] | None = None, **options: Any
    ) -> Execution:
        return noetl.run(playbook, workload, home=noetl_home, **options)

    return run


@pytest.fixture
def noetl_server(noetl_home: Path) -> Iterator[Client]:
    """The client of a server of this test, on a free port; it ends with the test."""
    import noetl

    command = [sys.executable, "-m", "noetl", "server", "start", "--port", "0"]
    started = subprocess.run(
        command, capture_output=True, text=True, check=False, timeout=START_S
    )
    if started.returncode:
        pytest.fail(f"the server did not start: {started.stderr or started.stdout}")
    try:
        yield noetl.Client(home=noetl_home)
    finally:
        stop = [sys.executable, "-m", "noetl", "server", "stop"]
        subprocess.run(stop, capture_output=True, check=False, timeout=START_S)


@pytest.fixture
def scripted_tools(tmp_path: Path) -> Callable[..., None]:
    """Run a case of a playbook test that is written in Python.

    ``scripted_tools("orders.yaml", tasks={"fetch": {"result": []}}, expect={…})``:
    the members are those of a case in a test file.
    """

    def check(playbook: str | Path, **case: Any) -> None:
        __tracebackhide__ = True
        import msgspec

        from noetl.commands.files.playbook_files import SourceFile
        from noetl.commands.output.test_results import Report
        from noetl.commands.test import Examiner
        from noetl.config import read_extensions, read_plugins, read_settings

        where = Path(playbook).resolve()
        document = {"playbook": where.name, "cases": [{"name": where.stem, **case}]}
        text = msgspec.json.encode(document)
        report = Report(SourceFile(str(where.parent / "case.test.yaml"), text))
        settings = read_settings()
        examiner = Examiner(
            read_plugins(settings).kinds, read_extensions(None, settings), "", None
        )
        try:
            for _, judge in examiner.cases(report):
                verdict = judge()
                if not verdict.passed:
                    raise CaseFailed(report, verdict)
        finally:
            examiner.close()
        if report.wrong is not None:
            raise AssertionError(_diagnostics(report))

    return check
