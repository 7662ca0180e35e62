"""Versions of playbooks: their order, the next number, and conflicts."""

from __future__ import annotations

import re
from collections.abc import Iterable

from noetl.errors import VersionTaken
from noetl.ports import Registered

_WHOLE = re.compile(r"[0-9]{1,18}\Z", re.ASCII)
_DIGITS = 20


def rank(version: str) -> str:
    """Return a text that sorts by version: 1.10 after 1.9, names before numbers."""
    return "\x01".join(_part(part) for part in version.split("."))


def _part(part: str) -> str:
    return f"1{part:0>{_DIGITS}}" if _WHOLE.match(part) else f"0{part}"


def next_number(versions: Iterable[str]) -> str:
    """Return one more than the largest leading whole number of the versions."""
    leads = (version.split(".")[0] for version in versions)
    return str(max((int(lead) for lead in leads if _WHOLE.match(lead)), default=0) + 1)


def same_or_taken(known: Registered, playbook: Registered) -> Registered:
    """Return the known playbook if it is the same. Raises ``VersionTaken``."""
    if known.sha256 == playbook.sha256:
        return known
    raise VersionTaken(
        f"version {known.version} of '{known.path}' is another playbook, registered at "
        f"{known.registered_at}"
    )
