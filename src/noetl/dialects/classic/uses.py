"""What is said of each construct of the dialect."""

from __future__ import annotations

import msgspec

from noetl.dsl.diagnostics import Report
from noetl.dsl.place import Place


class Uses(msgspec.Struct, frozen=True):
    """One warning for each place where the dialect is spoken (S-01)."""

    report: Report

    def accept(self, at: Place, what: str, canonical: str) -> None:
        message = f"{what} is accepted by the 'classic' extension"
        self.report.warn("S-01", "dialect", at, message, f"canonical form: {canonical}")

    def refuse(self, at: Place, message: str, hint: str) -> None:
        """What even the dialect cannot run."""
        self.report.error("S-01", "dialect", at, message, hint)
