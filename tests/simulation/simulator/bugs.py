"""All planted bugs."""

from __future__ import annotations

from . import bugs_of_decisions, bugs_of_leases, bugs_of_reports
from .planting import BUGS, Bug

__all__ = ["BUGS", "Bug", "bugs_of_decisions", "bugs_of_leases", "bugs_of_reports"]
