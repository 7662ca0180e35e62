"""The kinds of errors, and the tree of exceptions as its module draws it."""

from __future__ import annotations

from collections.abc import Mapping

from noetl import errors as exceptions
from noetl.engine.error_kinds import ERROR_KINDS, ErrorKind
from pages.markdown import table

INTRODUCTION = """
Every error has a kind, which does not change: rules match on `outcome.error.kind`, and
`noetl show` prints it. An error also has a `message`, `retryable` and `details`. NoETL
repeats nothing by itself; `retryable` says whether a second call can end otherwise, and
a rule such as `when: "{{ outcome.error.retryable }}"` decides.
""".strip()

NOTES = {
    "The log": "These end the command; they are never the outcome of a task.",
    "Access": "With these a server refuses a request; no task ends so.",
}


def errors() -> str:
    """Return the page of every error kind by section, and of the exceptions."""
    parts = [INTRODUCTION]
    for section, kinds in ERROR_KINDS.items():
        parts.append(f"## {section}")
        if section in NOTES:
            parts.append(NOTES[section])
        parts.append(kinds_table(kinds))
    _, _, tree = (exceptions.__doc__ or "").partition("\n\n")
    parts += [
        "## Exceptions",
        "Programs that import `noetl.errors` meet these:",
        f"```text\n{tree.strip()}\n```",
    ]
    return "\n\n".join(parts)


def kinds_table(kinds: Mapping[str, ErrorKind]) -> str:
    words = {True: "yes", False: "no", None: "sometimes"}
    rows = (
        (
            f"`{name}`" + (f" (comes with {kind.reserved})" if kind.reserved else ""),
            kind.doc,
            words[kind.retryable],
            kind.remedy,
        )
        for name, kind in kinds.items()
    )
    return table("| kind | when | retryable | what to do |", rows)
