"""Strict reading: warnings become errors, hints stay hints."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from noetl import load

PLAYBOOKS = sorted((Path(__file__).parents[2] / "playbooks/invalid").glob("*.yaml"))


@pytest.mark.spec("C-17", "WARN-01", "STEP-03")
def test_a_step_without_tool_and_next(document: Callable[..., str]) -> None:
    text = document("- step: start\n")
    lenient, strict = load(text), load(text, strict=True)
    assert lenient.valid
    assert [(d.code, d.severity) for d in lenient.diagnostics] == [
        ("WARN-01", "warning")
    ]
    assert not strict.valid
    assert [(d.code, d.severity) for d in strict.diagnostics] == [("WARN-01", "error")]


@pytest.mark.spec("C-17")
@pytest.mark.parametrize("path", [pytest.param(p, id=p.stem) for p in PLAYBOOKS])
def test_strict_changes_only_the_severity_of_warnings(path: Path) -> None:
    lenient = load(path.read_bytes()).diagnostics
    strict = load(path.read_bytes(), strict=True)
    raised = {"error": "error", "warning": "error", "hint": "hint"}
    assert [d.severity for d in strict.diagnostics] == [
        raised[d.severity] for d in lenient
    ]
    assert [(d.code, d.message, d.line, d.column) for d in strict.diagnostics] == [
        (d.code, d.message, d.line, d.column) for d in lenient
    ]
    assert strict.valid == all(d.severity == "hint" for d in lenient)


@pytest.mark.spec("S-01", "C-17")
def test_a_dialect_is_an_error_when_strict(document: Callable[..., str]) -> None:
    text = document("- step: start\n  tool: {kind: noop}\n  sink: {kind: noop}\n")
    loaded = load(text, extensions=frozenset({"legacy"}), strict=True)
    assert [(d.code, d.severity) for d in loaded.diagnostics] == [("S-01", "error")]


@pytest.mark.spec("S-08")
def test_a_hint_does_not_make_it_invalid(document: Callable[..., str]) -> None:
    text = document(
        "- step: start\n  tool: {kind: http, url: x}\n  next: {arcs: [{step: end}]}\n"
        "- {step: end, tool: {kind: noop}}\n"
    )
    loaded = load(text, strict=True)
    assert loaded.valid
    assert [(d.code, d.severity) for d in loaded.diagnostics] == [("S-08", "hint")]
