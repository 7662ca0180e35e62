"""Verdicts of playbook tests: as text, as one JSON document, and as JUnit XML."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from xml.etree.ElementTree import Element, SubElement, indent, tostring

import click
import msgspec

from noetl.commands.files.playbook_files import SourceFile
from noetl.commands.output.diagnostics import count_words, format_diagnostic
from noetl.dsl.diagnostics import Diagnostic
from noetl.dsl.load import finished
from noetl.dsl.node import printable, shorten
from noetl.testing.coverage import GROUPS, Coverage
from noetl.testing.grammar import CODE
from noetl.testing.verdict import Fault, Verdict
from noetl.types import JSON

_MAX_FAULTS = 5
_WIDTH = 240


class Report(msgspec.Struct):
    """The verdicts of a test file, or why it could not be run.

    ``wrong`` is the file that the diagnostics are about: the test file or its playbook.
    """

    file: SourceFile
    playbook: str | None = None
    verdicts: list[tuple[Verdict, float]] = msgspec.field(default_factory=list)
    diagnostics: tuple[Diagnostic, ...] = ()
    wrong: SourceFile | None = None

    @property
    def passed(self) -> bool:
        return all(verdict.passed for verdict, _ in self.verdicts)

    @property
    def runs(self) -> int:
        return sum(verdict.runs for verdict, _ in self.verdicts)


def show_report(report: Report) -> None:
    """Print the differences of a test file, then one line with its counts."""
    if report.wrong is not None:
        lines = report.wrong.lines
        for found in report.diagnostics:
            click.echo(format_diagnostic(found, report.wrong.name, lines) + "\n")
        word = click.style("invalid", fg="red", bold=True)
        words = count_words(report.diagnostics)
        click.echo(f"{printable(report.wrong.name)}: {word}: {words}")
        return
    lines = report.file.lines
    for verdict, _ in report.verdicts:
        if not verdict.passed:
            click.echo("\n".join(failure_lines(report, verdict, lines)) + "\n")
    failed = sum(not verdict.passed for verdict, _ in report.verdicts)
    good = len(report.verdicts) - failed
    counts = [click.style(f"{failed} failed", fg="red", bold=True)] if failed else []
    counts += [click.style(f"{good} passed", fg="green", bold=True)] if good else []
    name = printable(report.file.name)
    click.echo(f"{name}: {', '.join(counts)} ({_count(report.runs, 'run')})")


def failure_lines(report: Report, verdict: Verdict, lines: list[str]) -> Iterator[str]:
    """Yield what is shown of a case that failed: its differences with their places."""
    word = click.style("FAILED", fg="red", bold=True)
    name = printable(verdict.case.name)
    which = ""
    if verdict.case.schedules > 1 or verdict.seed:
        which = f" under schedule {verdict.seed} (repeat it with --seed {verdict.seed})"
    yield f"{word} {name}{which}"
    shown: list[str] = []
    for fault in verdict.faults[:_MAX_FAULTS]:
        yield format_diagnostic(as_diagnostic(fault), report.file.name, lines)
        if fault.log and fault.log != shown:
            yield from (
                f"      {click.style('~', dim=True)} {shorten(each, _WIDTH)}"
                for each in fault.log
            )
        shown = fault.log
    left = len(verdict.faults) - _MAX_FAULTS
    if left > 0:
        yield f"      … and {_count(left, 'more difference')}; --json lists all"


def as_diagnostic(fault: Fault) -> Diagnostic:
    """Convert a difference to a diagnostic: line, column, message."""
    line, column = fault.at.mark
    found = Diagnostic(
        CODE,
        fault.expectation,
        "error",
        fault.message,
        fault.at.dotted,
        line,
        column,
        fault.hint,
    )
    return finished(found)


def show_summary(reports: list[Report], seconds: float) -> None:
    verdicts = [verdict for report in reports for verdict, _ in report.verdicts]
    failed = sum(not verdict.passed for verdict in verdicts)
    runs = sum(report.runs for report in reports)
    words = [_count(len(verdicts), "case")]
    if failed:
        words.append(f"{failed} failed")
    invalid = sum(report.wrong is not None for report in reports)
    if invalid:
        words.append(f"{_count(invalid, 'file')} invalid")
    good = not failed and not invalid
    word = click.style(
        "passed" if good else "failed", fg="green" if good else "red", bold=True
    )
    click.echo(f"{word}: {', '.join(words)}; {_count(runs, 'run')} in {seconds:.2f} s")


def show_coverage(covered: Mapping[str, Coverage]) -> None:
    width = max((len(path) for path in covered), default=0)
    click.echo(f"\n{'coverage':<{width}}  {'steps':>9}{'arcs':>9}{'rules':>9}")
    for path, each in sorted(covered.items()):
        counts = each.counts()
        cells = "".join(f"{'/'.join(map(str, counts[name])):>9}" for name in GROUPS)
        click.echo(f"{printable(path):<{width}}  {cells}")
    for path, each in sorted(covered.items()):
        for spot in each.missing():
            what = {"steps": "step", "arcs": "arc", "rules": "rule"}[spot.group]
            name = printable(shorten(spot.name, _WIDTH))
            click.echo(f"  never: {printable(path)}, line {spot.line}: {what} {name}")


def as_json(
    reports: list[Report], seconds: float, covered: Mapping[str, Coverage] | None
) -> dict[str, JSON]:
    verdicts = [verdict for report in reports for verdict, _ in report.verdicts]
    failed = sum(not verdict.passed for verdict in verdicts)
    document: dict[str, JSON] = {
        "files": [_file_json(report) for report in reports],
        "passed": len(verdicts) - failed,
        "failed": failed,
        "runs": sum(report.runs for report in reports),
        "duration_ms": round(seconds * 1000, 3),
    }
    if covered is not None:
        document["coverage"] = {path: each.as_json() for path, each in covered.items()}
    return document


def _file_json(report: Report) -> dict[str, JSON]:
    return {
        "file": report.file.name,
        "playbook": report.playbook,
        "valid": report.wrong is None,
        "diagnostics": [
            {"file": report.wrong.name, **msgspec.structs.asdict(found)}
            for found in report.diagnostics
            if report.wrong is not None
        ],
        "cases": [_case_json(verdict, seconds) for verdict, seconds in report.verdicts],
    }


def _case_json(verdict: Verdict, seconds: float) -> dict[str, JSON]:
    return {
        "name": verdict.case.name,
        "line": verdict.case.at.mark[0],
        "passed": verdict.passed,
        "runs": verdict.runs,
        "seed": verdict.seed,
        "duration_ms": round(seconds * 1000, 3),
        "differences": [_fault_json(fault) for fault in verdict.faults],
    }


def _fault_json(fault: Fault) -> dict[str, JSON]:
    found = as_diagnostic(fault)
    return {
        "expectation": fault.expectation,
        "message": found.message,
        "path": fault.path,
        "expected": fault.expected,
        "found": fault.found,
        "line": found.line,
        "column": found.column,
        "hint": found.hint,
        "log": fault.log,
    }


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


class Judged(msgspec.Struct, frozen=True):
    """Test file with its verdicts, and the seconds that each verdict took."""

    file: str
    verdicts: Sequence[tuple[Verdict, float]]
    diagnostics: Sequence[Diagnostic] = ()


def to_junit(files: Iterable[Judged]) -> str:
    """Write a suite per file and a test per case; an invalid file is an error."""
    root = Element("testsuites")
    for tested in files:
        wrong = [each for each in tested.diagnostics if each.severity == "error"]
        suite = SubElement(root, "testsuite")
        suite.set("name", _clean(tested.file))
        suite.set("tests", str(len(tested.verdicts) + bool(wrong)))
        suite.set("failures", str(sum(not each.passed for each, _ in tested.verdicts)))
        suite.set("errors", str(int(bool(wrong))))
        suite.set("time", f"{sum(seconds for _, seconds in tested.verdicts):.6f}")
        if wrong:
            case = _case(suite, tested.file, "the file is valid", 0.0)
            text = "\n".join(f"{d.line}:{d.column}: {d.message}" for d in wrong)
            _say(case, "error", wrong[0].message, text)
        for verdict, seconds in tested.verdicts:
            case = _case(suite, tested.file, verdict.case.name, seconds)
            if not verdict.passed:
                _say(case, "failure", verdict.faults[0].message, _text(verdict))
    indent(root)
    return tostring(root, encoding="unicode", xml_declaration=True) + "\n"


def _case(suite: Element, file: str, name: str, seconds: float) -> Element:
    case = SubElement(suite, "testcase")
    case.set("classname", _clean(file))
    case.set("name", _clean(name))
    case.set("time", f"{seconds:.6f}")
    return case


def _say(case: Element, tag: str, message: str, text: str) -> None:
    element = SubElement(case, tag)
    element.set("message", _clean(message))
    element.text = "\n".join(_clean(line) for line in text.split("\n"))


def _text(verdict: Verdict) -> str:
    lines = [f"schedule {verdict.seed}; repeat it with --seed {verdict.seed}"]
    for fault in verdict.faults:
        lines += [_place(fault), *fault.log]
    return "\n".join(lines)


def _place(fault: Fault) -> str:
    line, column = fault.at.mark
    return f"{line}:{column}: {fault.message}"


def _clean(text: str) -> str:
    """Remove control characters, which XML does not allow."""
    return printable(text)
