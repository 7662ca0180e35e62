"""Error kinds: the cause of each, and the remedy.

Playbooks match on a kind, so each kind is declared here before code uses it. A name
that ends in ``.*`` stands for all kinds with that prefix.
"""

from __future__ import annotations

from collections.abc import Mapping

from noetl.engine.error_kinds.executions import (
    CHILDREN,
    EXECUTION,
    PLANNED,
    TEMPLATES,
    WORKERS,
)
from noetl.engine.error_kinds.kind import ErrorKind
from noetl.engine.error_kinds.requests import ACCESS, API, TRIGGERS
from noetl.engine.error_kinds.storage import DATABASES, REFERENCES, STORE
from noetl.engine.error_kinds.tools import HTTP, QUANTUM, SECRETS, TOOLS

__all__ = ["ERROR_KINDS", "ErrorKind", "remedy_of"]

ERROR_KINDS: Mapping[str, Mapping[str, ErrorKind]] = {
    "Executions": EXECUTION,
    "Templates": TEMPLATES,
    "Tools": TOOLS,
    "HTTP": HTTP,
    "Playbooks": CHILDREN,
    "Databases": DATABASES,
    "Quantum jobs": QUANTUM,
    "Credentials": SECRETS,
    "Large values": REFERENCES,
    "Workers": WORKERS,
    "The log": STORE,
    "Access": ACCESS,
    "The API": API,
    "Triggers": TRIGGERS,
    "Planned": PLANNED,
}
"""Error kinds by section of the reference page. Kinds of the log and of access are
never outcomes: the command ends, or the request is refused."""


def remedy_of(kind: str) -> str | None:
    """Return the remedy for an error of this kind; None for an undeclared kind."""
    for section in ERROR_KINDS.values():
        for name, each in section.items():
            if name == kind or (name.endswith(".*") and kind.startswith(name[:-1])):
                return each.remedy
    return None
