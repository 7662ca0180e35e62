"""Findings of the analysis: a code, a location, a message, and a witness path."""

from __future__ import annotations

from noetl.dsl.diagnostics import Diagnostic, Severity
from noetl.dsl.node import Location

SHOWN = 10  # steps at each end of a long witness
ELLIPSIS = "…"


class Finding(Diagnostic, frozen=True):
    """Diagnostic with a witness.

    The witness is the steps that a token takes from the entry to the problem; a cycle
    ends where it began, and the middle of a long path is left out (``…``).
    """

    witness: tuple[str, ...] = ()

    @property
    def plain(self) -> Diagnostic:
        """The finding without its witness."""
        return Diagnostic(
            self.code,
            self.rule,
            self.severity,
            self.message,
            self.path,
            self.line,
            self.column,
            self.hint,
        )


def found(
    severity: Severity,
    code: str,
    rule: str,
    at: Location,
    message: str,
    *,
    hint: str | None = None,
    witness: tuple[str, ...] = (),
) -> Finding:
    """Return a finding at a location of the text."""
    path = elide(witness)
    return Finding(code, rule, severity, message, at.dotted, *at.mark, hint, path)


def elide(steps: tuple[str, ...]) -> tuple[str, ...]:
    """Return the beginning and the end of a long path."""
    if len(steps) <= 2 * SHOWN + 1:
        return steps
    return (*steps[:SHOWN], ELLIPSIS, *steps[-SHOWN:])


def listed(names: tuple[str, ...] | list[str]) -> str:
    """Join names as ``'a', 'b' and 'c'``, shortened where there are many."""
    shown = [f"'{name}'" for name in names[:5]]
    if len(names) > 5:
        shown[4:] = [f"{len(names) - 4} more"]
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if shown[1:] else shown)
