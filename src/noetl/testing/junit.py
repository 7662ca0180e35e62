"""Verdicts as JUnit XML, for those who collect test results."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from xml.etree.ElementTree import Element, SubElement, indent, tostring

import msgspec

from noetl.dsl.diagnostics import Diagnostic
from noetl.dsl.node import printable
from noetl.testing.verdict import Fault, Verdict


class Judged(msgspec.Struct, frozen=True):
    """A test file with its verdicts, and the seconds that each of them took."""

    file: str
    verdicts: Sequence[tuple[Verdict, float]]
    diagnostics: Sequence[Diagnostic] = ()


def to_junit(files: Iterable[Judged]) -> str:
    """A file is a suite, a case is a test; a file that is wrong is an error."""
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
    """XML has no word for control characters."""
    return printable(text)
