"""Each use of the dialect is said once, with what replaces it (S-01)."""

from __future__ import annotations

from noetl.dsl.diagnostics import Report
from noetl.dsl.place import Place


def note_use(report: Report, at: Place, what: str, replacement: str) -> None:
    message = f"'{what}' is accepted by the 'legacy' extension"
    report.warn("S-01", "dialect", at, message, replacement)
