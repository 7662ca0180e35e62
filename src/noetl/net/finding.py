"""What the analysis says: a code, a place, a sentence, and a path that shows it."""

from __future__ import annotations

from noetl.dsl.diagnostics import Diagnostic, Severity
from noetl.dsl.place import Place

SHOWN = 10  # steps at each end of a long witness
ELLIPSIS = "…"


class Finding(Diagnostic, frozen=True):
    """A diagnostic with a witness.

    These are the steps a token takes from the entry to the problem; a cycle ends
    where it began, and the middle of a long way is left out (``…``).
    """

    witness: tuple[str, ...] = ()


def found(
    severity: Severity,
    code: str,
    rule: str,
    at: Place,
    message: str,
    *,
    hint: str | None = None,
    witness: tuple[str, ...] = (),
) -> Finding:
    """A finding at a place of the text."""
    path = elide(witness)
    return Finding(code, rule, severity, message, at.dotted, *at.mark, hint, path)


def elide(steps: tuple[str, ...]) -> tuple[str, ...]:
    """The beginning and the end of a long way, which is what people look at."""
    if len(steps) <= 2 * SHOWN + 1:
        return steps
    return (*steps[:SHOWN], ELLIPSIS, *steps[-SHOWN:])


def listed(names: tuple[str, ...] | list[str]) -> str:
    """``'a', 'b' and 'c'``, shortened where there are many."""
    shown = [f"'{name}'" for name in names[:5]]
    if len(names) > 5:
        shown[4:] = [f"{len(names) - 4} more"]
    return " and ".join([", ".join(shown[:-1]), shown[-1]] if shown[1:] else shown)
