"""How a check is declared and run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import msgspec

from noetl.dsl.diagnostics import Diagnostic, Report, Severity
from noetl.dsl.parse import Draft
from noetl.dsl.place import Place

Hint: TypeAlias = str | Callable[[], str | None] | None
"""What to do about it; a function where that takes a search for similar names."""

Found: TypeAlias = tuple[Place, str, Hint]
"""Where it is, what was found, what to do about it."""

_SEARCHES = 25  # of one rule: enough for a person, too few to make us slow

Check: TypeAlias = Callable[[Draft], Iterator[Found]]


class Rule(msgspec.Struct, frozen=True):
    """A named check. Its docstring is its line in the reference."""

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
    """Register a check under its name and the requirement that asks for it."""

    def register(check: Check) -> Check:
        RULES.append(Rule(name, code, severity, check))
        return check

    return register


def check(draft: Draft, report: Report) -> None:
    """Run every rule; all findings go into the report.

    Into a full report each rule says one more thing, to show whether it would have
    been an error; then its time is saved.
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
