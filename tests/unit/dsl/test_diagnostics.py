"""Findings: how many, in which order, and with which hints."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from noetl import load
from noetl.dsl.diagnostics import (
    MAX_SHOWN,
    Diagnostic,
    Report,
    Severity,
    did_you_mean,
    nearest,
)

Document = Callable[..., str]


def finding(line: int, severity: Severity = "warning", column: int = 1) -> Diagnostic:
    return Diagnostic("ROOT-01", "rule", severity, f"finding {line}", "", line, column)


@pytest.mark.spec("SRV-06")
def test_findings_come_in_the_order_of_the_text() -> None:
    report = Report()
    for line, column in ((3, 1), (1, 9), (2, 1), (1, 2)):
        report.add(finding(line, column=column))
    found = [(each.line, each.column) for each in report]
    assert found == [(1, 2), (1, 9), (2, 1), (3, 1)]


@pytest.mark.spec("SRV-06")
def test_the_same_finding_counts_once() -> None:
    report = Report()
    for _ in range(3):
        report.add(finding(1))
    assert len(list(report)) == 1


@pytest.mark.spec("SRV-06")
@pytest.mark.parametrize(
    ("more", "severity"),
    [
        pytest.param(["hint"], "hint", id="hints"),
        pytest.param(["hint", "warning"], "warning", id="a warning among them"),
        pytest.param(["error", "hint"], "error", id="an error among them"),
    ],
)
def test_what_is_too_many_is_counted(more: list[Severity], severity: Severity) -> None:
    report = Report()
    for line in range(MAX_SHOWN):
        report.add(finding(line + 1))
    assert len(list(report)) == MAX_SHOWN
    for line, each in enumerate(more):
        report.add(finding(MAX_SHOWN + line + 1, each))
    *shown, last = report
    assert len(shown) == MAX_SHOWN
    assert (last.rule, last.severity) == ("too-many", severity)
    assert f"at least {len(more)} more" in last.message


@pytest.mark.spec("SRV-06", "VAL-02")
def test_an_error_behind_many_warnings_makes_it_invalid(document: Document) -> None:
    octals = "workload: {a: [" + "007, " * (MAX_SHOWN + 10) + "]}\n"
    step = "- step: start\n  next: {arcs: [{step: nowhere}]}\n"
    loaded = load(document(step, octals))
    assert not loaded.valid
    assert loaded.diagnostics[-1].severity == "error"


@pytest.mark.spec("VAL-06")
@pytest.mark.parametrize(
    ("word", "known", "match"),
    [
        pytest.param("workfow", ["workflow", "workload"], "workflow", id="the nearest"),
        pytest.param("WORKFLOW", ["workflow"], "workflow", id="in any case"),
        pytest.param("xyz", ["workflow"], None, id="nothing near"),
        pytest.param("strat", [*map(str, range(500)), "start"], "start", id="of many"),
        pytest.param("a" * 10_000, ["a" * 64], "a" * 64, id="a long word"),
        pytest.param("", ["a"], None, id="no word"),
        pytest.param("a", [], None, id="no names"),
    ],
)
def test_the_nearest_name(word: str, known: list[str], match: str | None) -> None:
    assert nearest(word, known) == match


@pytest.mark.spec("VAL-06")
def test_few_names_are_listed_and_many_are_not() -> None:
    assert did_you_mean("zzz", ["b", "a"]) == "known: a, b"
    assert did_you_mean("zzz", [f"name{i}" for i in range(13)]) is None


@pytest.mark.spec("VAL-02")
def test_a_rule_searches_for_similar_names_only_so_often(document: Document) -> None:
    arcs = ", ".join(f"{{step: strat{i}, when: true}}" for i in range(100))
    loaded = load(document(f"- step: start\n  next: {{arcs: [{arcs}]}}\n"))
    hints = [each.hint for each in loaded.diagnostics if each.code == "VAL-02"]
    assert len(hints) == 100
    assert hints[:25] == ["did you mean 'start'?"] * 25
    assert set(hints[25:]) == {None}


@pytest.mark.spec("VAL-11")
def test_a_message_names_a_dozen_labels(document: Document) -> None:
    tasks = ", ".join(f"{{t{i}: {{kind: noop}}}}" for i in range(50))
    jump = "{policy: {rules: [{else: {then: {do: jump, to: x}}}]}}"
    text = document(
        f"- step: start\n  tool: [{tasks}, {{go: {{kind: noop, spec: {jump}}}}}]\n"
    )
    [found] = load(text).diagnostics
    assert found.message.endswith(
        "known: " + ", ".join(f"t{i}" for i in range(12)) + ", …"
    )


@pytest.mark.spec("S-29")
@pytest.mark.parametrize(
    ("guard", "said"),
    [
        pytest.param("{{ 1 / 0 }}", "always fails: division by zero", id="a division"),
        pytest.param("{{ 'a' * 1000000000 }}", "always fails", id="a repetition"),
        pytest.param("{{ range(99999) }}", "always fails", id="a long range"),
        pytest.param("{{ 'no' }}", "the constant text 'no': false", id="a false word"),
        pytest.param("{{ 'ok' }}", "the constant text 'ok': true", id="another word"),
    ],
)
def test_a_constant_guard_is_tried(document: Document, guard: str, said: str) -> None:
    arc = f'{{step: end, when: "{guard}"}}'
    end = "- {step: end, tool: {kind: noop}}\n"
    loaded = load(document(f"- step: start\n  next: {{arcs: [{arc}]}}\n" + end))
    assert loaded.valid
    [found] = loaded.diagnostics
    assert (found.code, found.severity) == ("S-29", "warning")
    assert said in found.message
