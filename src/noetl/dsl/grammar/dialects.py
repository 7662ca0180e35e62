"""The extensions that read earlier playbooks, by the names that diagnostics give them.

This is all that the language knows of them.
"""

from __future__ import annotations

from collections.abc import Collection

RETIRED_KEYS, OLDER_FORMS = "legacy", "classic"
DIALECTS = (RETIRED_KEYS, OLDER_FORMS)


def or_enabled(replacement: str, dialect: str = RETIRED_KEYS) -> str:
    """The hint for a key of earlier drafts."""
    return f"{replacement}, or enable the extension '{dialect}'"


def accepted(canonical: str) -> str:
    """The hint for an older form: what to write, and what makes that unnecessary."""
    return accepted_as(f"canonical form: {canonical}", "it as it is")


def accepted_as(advice: str, what: str) -> str:
    return f"{advice} (the extension '{OLDER_FORMS}' accepts {what})"


def accepts_older_forms(extensions: Collection[str]) -> bool:
    return OLDER_FORMS in extensions
