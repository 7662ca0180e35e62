"""Declaration and execution of checks."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import msgspec

from noetl.dsl.diagnostics import Diagnostic, Report, Severity
from noetl.dsl.node import Location
from noetl.dsl.parse import Draft

Hint: TypeAlias = str | Callable[[], str | None] | None
"""Hint text, or a function that searches for similar names."""

Found: TypeAlias = tuple[Location, str, Hint]
"""Location, message and hint."""

_SEARCHES = 25  # of one rule: each search is slow

Check: TypeAlias = Callable[[Draft], Iterator[Found]]


class Rule(msgspec.Struct, frozen=True):
    """Named check. Its docstring is its line in the reference."""

    name: str
    code: str
    severity: Severity
    check: Check

    @property
    def doc(self) -> str:
        return " ".join((self.check.__doc__ or "").split())


RULES: list[Rule] = []


def rule(
    name: str, code: str, severity: Severity = "error"
) -> Callable[[Check], Check]:
    """Register a check under its name and the requirement that it implements."""

    def register(check: Check) -> Check:
        RULES.append(Rule(name, code, severity, check))
        return check

    return register


def check(draft: Draft, report: Report) -> None:
    """Run every rule; all findings go into the report.

    When the report is full, each rule adds one more finding, which shows whether it is
    an error; then the rule stops.
    """
    for each in RULES:
        searches = 0
        for at, message, hint in each.check(draft):
            full = report.full
            if callable(hint):
                searches += 1
                hint = hint() if searches <= _SEARCHES else None
            line, column = at.mark
            report.add(
                Diagnostic(
                    each.code,
                    each.name,
                    each.severity,
                    message,
                    at.dotted,
                    line,
                    column,
                    hint,
                )
            )
            if full:
                break
