"""Diagnostics of the reader and the validator: code, location, message, hint."""

from __future__ import annotations

from collections.abc import Iterator
from difflib import get_close_matches
from typing import TYPE_CHECKING, Literal

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterable

    from noetl.dsl.node import Location

Severity = Literal["error", "warning", "hint"]

MAX_SHOWN = 500
_SEVERITIES = ("error", "warning", "hint")
_COMPARED = 60


class Diagnostic(msgspec.Struct, frozen=True):
    """One finding. ``code`` is a conformance id, ``rule`` the name of the check."""

    code: str
    rule: str
    severity: Severity
    message: str
    path: str
    line: int
    column: int
    hint: str | None = None


class Report:
    """Collects the diagnostics of one file; the same finding counts once.

    An aliased node is visited from each alias but stands at one position of the text,
    so it is reported once. Findings after ``MAX_SHOWN`` are counted only, which bounds
    the work for a hostile file.
    """

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, int, int, str], Diagnostic] = {}
        self._more = 0
        self._more_severity: Severity = "hint"

    @property
    def full(self) -> bool:
        return len(self._found) >= MAX_SHOWN

    @property
    def failed(self) -> bool:
        return any(found.severity == "error" for found in self)

    def add(self, found: Diagnostic) -> None:
        key = (found.code, found.rule, found.line, found.column, found.message)
        if key in self._found:
            return
        if not self.full:
            self._found[key] = found
            return
        self._more += 1
        self._more_severity = min(
            self._more_severity, found.severity, key=_SEVERITIES.index
        )

    def error(
        self, code: str, rule: str, at: Location, message: str, hint: str | None = None
    ) -> None:
        self._say("error", code, rule, at, message, hint)

    def warn(
        self, code: str, rule: str, at: Location, message: str, hint: str | None = None
    ) -> None:
        self._say("warning", code, rule, at, message, hint)

    def advise(
        self, code: str, rule: str, at: Location, message: str, hint: str | None = None
    ) -> None:
        self._say("hint", code, rule, at, message, hint)

    def _say(
        self,
        severity: Severity,
        code: str,
        rule: str,
        at: Location,
        message: str,
        hint: str | None,
    ) -> None:
        line, column = at.mark
        self.add(
            Diagnostic(code, rule, severity, message, at.dotted, line, column, hint)
        )

    def __iter__(self) -> Iterator[Diagnostic]:
        """Yield the findings in the order of the text, then the count of the others."""
        yield from sorted(self._found.values(), key=lambda d: (d.line, d.column))
        if self._more:
            message = f"at least {self._more:,} more findings are not shown"
            hint = "correct the findings above first"
            yield Diagnostic(
                "ROOT-01", "too-many", self._more_severity, message, "", 1, 1, hint
            )


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known name most similar to ``word``.

    Among many names only the likely ones are compared: the comparison is slow.
    """
    word = word.lower()[:64]
    by_lower = {name.lower(): name for name in known}
    candidates = list(by_lower)
    if len(candidates) > _COMPARED:
        ends = {word[:1], word[-1:]}
        candidates = [
            name
            for name in candidates
            if abs(len(name) - len(word)) <= 2 and ends & {name[:1], name[-1:]}
        ][:_COMPARED]
    found = get_close_matches(word, candidates, n=1, cutoff=0.6)
    return by_lower[found[0]] if found else None


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """Return a hint with the nearest known name, or with all names if few."""
    names = set(known)
    match = nearest(word, names)
    if match is not None:
        return f"did you mean '{match}'?"
    if 0 < len(names) <= 12:
        return f"known: {', '.join(sorted(names))}"
    return None
