"""JUnit XML: every case is there, a failure has its words, nothing breaks it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from xml.etree.ElementTree import Element, fromstring

from noetl.commands.output.test_results import Judged, to_junit
from noetl.testing.parse import parse_suite

Judge = Callable[..., Any]

NOOP = "- {step: s, tool: {kind: noop, result: '<1>&'}}"


def parse(*files: Judged) -> Element:
    return fromstring(to_junit(files))


def test_cases_are_counted_and_failures_say_what_and_why(judge: Judge) -> None:
    good = judge(NOOP, "expect: {}").verdict
    bad = judge(NOOP, 'expect: {result: "\\u0007]]>"}').verdict
    root = parse(Judged("a.test.yaml", [(good, 0.25), (bad, 0.5)]))

    (suite,) = root
    assert suite.attrib == {
        "name": "a.test.yaml",
        "tests": "2",
        "failures": "1",
        "errors": "0",
        "time": "0.750000",
    }
    first, second = suite
    assert first.attrib["name"] == "it"
    assert first.attrib["time"] == "0.250000"
    assert list(first) == []
    (failure,) = second
    assert failure.tag == "failure"
    assert failure.attrib["message"].startswith("result: expected ")
    assert 'found "<1>&"' in failure.attrib["message"]
    assert "--seed 0" in (failure.text or "")
    assert "s.task_1: ok" in (failure.text or "")


def test_a_file_that_is_wrong_is_an_error() -> None:
    _, diagnostics = parse_suite("cases: []")
    (suite,) = parse(Judged("b.test.yaml", [], diagnostics))

    assert (suite.attrib["tests"], suite.attrib["errors"]) == ("1", "1")
    (case,) = suite
    (error,) = case
    assert error.tag == "error"
    assert "'cases' is empty" in error.attrib["message"]
