"""Kinds of errors: when each happens, and what to do about it.

Playbooks match on a kind, so it is declared here before code makes it. A name that
ends in ``.*`` stands for all kinds that begin so.
"""

from __future__ import annotations

from collections.abc import Mapping

from noetl.engine.error_kinds.access import ACCESS
from noetl.engine.error_kinds.api import API
from noetl.engine.error_kinds.databases import DATABASES
from noetl.engine.error_kinds.executions import CHILDREN, EXECUTION, TEMPLATES, WORKERS
from noetl.engine.error_kinds.kind import ErrorKind
from noetl.engine.error_kinds.planned import PLANNED
from noetl.engine.error_kinds.storage import REFERENCES, STORE
from noetl.engine.error_kinds.tools import HTTP, QUANTUM, SECRETS, TOOLS
from noetl.engine.error_kinds.triggers import TRIGGERS

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
"""By section of the reference page; those of the log and of access never are outcomes:
the command ends, or the request is refused."""


def remedy_of(kind: str) -> str | None:
    """What to do about an error of this kind; None for one that is not declared."""
    for section in ERROR_KINDS.values():
        for name, each in section.items():
            if name == kind or (name.endswith(".*") and kind.startswith(name[:-1])):
                return each.remedy
    return None
