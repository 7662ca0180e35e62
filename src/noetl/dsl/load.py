"""The front door of the language: text in, a playbook or its diagnostics out."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from noetl.dsl.diagnostics import Diagnostic, Report
from noetl.dsl.kinds import Kinds
from noetl.dsl.model import Playbook
from noetl.dsl.node import Node, shorten
from noetl.dsl.parse import declared_extensions, parse_playbook
from noetl.dsl.place import Place
from noetl.dsl.rules import check
from noetl.dsl.secrets import mask
from noetl.dsl.source import read_source
from noetl.types import JSON

Rewrite = Callable[[Node, Kinds, frozenset[str], Report], tuple[Node, Kinds]]
"""A document into canonical nodes, for the extensions that are switched on; and the
kinds that they bring along."""

_LONGEST = 1_000  # characters of a message; what it quotes may be a megabyte


class Loaded(msgspec.Struct, frozen=True):
    """``playbook`` is None exactly when a diagnostic is an error."""

    playbook: Playbook | None
    diagnostics: tuple[Diagnostic, ...]

    @property
    def valid(self) -> bool:
        return self.playbook is not None

    def refusal(self, name: str) -> dict[str, JSON]:
        """Why this cannot run, as the log and every answer have it (S-42)."""
        return {
            "kind": "playbook.invalid",
            "message": f"{name} is not a valid playbook",
            "step": None,
            "task": None,
            "diagnostics": [msgspec.to_builtins(found) for found in self.diagnostics],
        }


def load(
    text: str | bytes,
    kinds: Kinds,
    extensions: frozenset[str] = frozenset(),
    *,
    strict: bool = False,
    rewrite: Rewrite | None = None,
) -> Loaded:
    """Read, normalize and validate; every finding of the file in one pass.

    ``strict`` turns warnings into errors. Never raises for any text.
    """
    report = Report()
    root = read_source(text, report)
    draft = None
    if root is not None:
        extensions = _effective(root, extensions, report)
        if rewrite is not None and extensions:
            root, kinds = rewrite(root, kinds, extensions, report)
        draft = parse_playbook(root, kinds, extensions, report)
    if draft is not None:
        check(draft, report)
    found = tuple(finished(each, strict) for each in report)
    failed = any(each.severity == "error" for each in found)
    if draft is None or failed:
        return Loaded(None, found)
    return Loaded(draft.playbook, found)


def _effective(root: Node, given: frozenset[str], report: Report) -> frozenset[str]:
    """What the operator and the playbook switch on; ``-name`` of the operator wins."""
    denied = {name[1:] for name in given if name.startswith("-")}
    declared = declared_extensions(root)
    if refused := sorted(declared & denied):
        at = Place(root)["executor"]["spec"]["extensions"]
        message = f"the operator denies the extension '{refused[0]}'"
        report.error("S-01", "denied-extension", at, message, "see noetl config")
    switched_on = {name for name in given if not name.startswith("-")}
    return frozenset((switched_on | declared) - denied)


def finished(found: Diagnostic, strict: bool = False) -> Diagnostic:
    """The diagnostic as it is shown: nothing secret in it, and not too long."""
    severity = found.severity
    if strict and severity == "warning":
        severity = "error"
    return msgspec.structs.replace(
        found,
        message=_presentable(found.message),
        path=mask(found.path),
        hint=_presentable(found.hint) if found.hint is not None else None,
        severity=severity,
    )


def _presentable(text: str) -> str:
    """What the author wrote may be quoted in it: no secrets, no control characters."""
    return shorten(" ".join(mask(text).split()), _LONGEST)
