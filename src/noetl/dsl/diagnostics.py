"""What the reader and the validator say: a code, a place, a sentence, a hint."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable

    from noetl.dsl.place import Place

Severity = Literal["error", "warning", "hint"]


@dataclass(frozen=True, slots=True)
class Diagnostic:
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

    An aliased node is visited from each alias, but it stands at one place in the
    text and so deserves one sentence.
    """

    def __init__(self) -> None:
        self._found: dict[tuple[str, str, int, int, str], Diagnostic] = {}

    def add(self, found: Diagnostic) -> None:
        key = (found.code, found.rule, found.line, found.column, found.message)
        self._found.setdefault(key, found)

    def error(
        self, code: str, rule: str, at: Place, message: str, hint: str | None = None
    ) -> None:
        self._say("error", code, rule, at, message, hint)

    def warn(
        self, code: str, rule: str, at: Place, message: str, hint: str | None = None
    ) -> None:
        self._say("warning", code, rule, at, message, hint)

    def advise(
        self, code: str, rule: str, at: Place, message: str, hint: str | None = None
    ) -> None:
        self._say("hint", code, rule, at, message, hint)

    def _say(
        self,
        severity: Severity,
        code: str,
        rule: str,
        at: Place,
        message: str,
        hint: str | None,
    ) -> None:
        line, column = at.mark
        self.add(
            Diagnostic(code, rule, severity, message, at.dotted, line, column, hint)
        )

    def __iter__(self) -> Iterator[Diagnostic]:
        return iter(sorted(self._found.values(), key=lambda d: (d.line, d.column)))

    def __len__(self) -> int:
        return len(self._found)

    @property
    def failed(self) -> bool:
        return any(d.severity == "error" for d in self._found.values())


def nearest(word: str, known: Iterable[str]) -> str | None:
    """The known name that ``word`` was probably meant to be."""
    by_lower = {name.lower(): name for name in known}
    found = get_close_matches(word.lower(), by_lower, n=1, cutoff=0.6)
    return by_lower[found[0]] if found else None


def did_you_mean(word: str, known: Iterable[str]) -> str | None:
    """A hint with the nearest known name, or with all of them if they are few."""
    names = set(known)
    match = nearest(word, names)
    if match is not None:
        return f"did you mean '{match}'?"
    if 0 < len(names) <= 12:
        return f"known: {', '.join(sorted(names))}"
    return None
