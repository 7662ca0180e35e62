"""Entry point of the language: text in, a playbook or its diagnostics out."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec
from msgspec.structs import replace

from noetl.dsl.composer import LINE_END
from noetl.dsl.diagnostics import Diagnostic, Report
from noetl.dsl.model import Playbook
from noetl.dsl.node import Location, Node, shorten
from noetl.dsl.parse import Draft, declared_extensions, parse_playbook
from noetl.dsl.python_source import InspectCode
from noetl.dsl.rules import check
from noetl.dsl.secret_patterns import mask
from noetl.dsl.source import read_source
from noetl.dsl.tool_kinds import Kinds
from noetl.types import JSON

Rewrite = Callable[[Node, Kinds, frozenset[str], Report], tuple[Node, Kinds]]
"""A document into canonical nodes, for the extensions that are switched on; and the
kinds that they bring along."""

NetChecks = Callable[[Playbook], Iterable[Diagnostic]]
"""Checks of a playbook's net, which only a playbook without errors has."""

_MAX_MESSAGE_CHARS = 1_000  # a message may quote a megabyte of the text


class Loaded(msgspec.Struct, frozen=True):
    """Result of ``load``; ``playbook`` is None if a diagnostic is an error."""

    playbook: Playbook | None
    diagnostics: tuple[Diagnostic, ...]

    @property
    def valid(self) -> bool:
        return self.playbook is not None

    def refusal(self, name: str) -> dict[str, JSON]:
        """Return the reason why the playbook cannot run, for the log and every reply
        (S-42)."""
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
    rules: bool = True,
    net_checks: NetChecks | None = None,
    inspect: InspectCode | None = None,
) -> Loaded:
    """Read, normalize and validate a text; one pass reports every finding.

    ``strict`` turns warnings into errors. Without ``rules`` the text is only read into
    the model, for a text that was validated before. Without ``inspect`` the Python
    code of tasks is not checked. Never raises for any text.
    """
    report = Report()
    root = read_source(text, report)
    draft = None
    if root is not None:
        extensions = _effective(root, extensions, report)
        if rewrite is not None and extensions:
            root, kinds = rewrite(root, kinds, extensions, report)
        draft = parse_playbook(root, kinds, extensions, report)
    if draft is not None and rules:
        if inspect is not None and draft.codes:
            draft = _inspected(draft, text, inspect)
        check(draft, report)
        if net_checks is not None and not report.failed:
            _add_new(net_checks(draft.playbook), report)
    found = tuple(finished(each, strict) for each in report)
    failed = any(each.severity == "error" for each in found)
    if draft is None or failed:
        return Loaded(None, found)
    return Loaded(draft.playbook, found)


def _inspected(draft: Draft, text: str | bytes, inspect: InspectCode) -> Draft:
    """Return the draft with what the compiler knows about each code."""
    if isinstance(text, bytes):
        text = text.decode("utf-8-sig", "replace")
    lines = LINE_END.split(text)
    facts = inspect([block.text for block in draft.codes])
    codes = tuple(
        replace(block, facts=each, lines=lines, inspected=True)
        for block, each in zip(draft.codes, facts, strict=True)
    )
    return replace(draft, codes=codes)


def _add_new(findings: Iterable[Diagnostic], report: Report) -> None:
    """Add the findings at places where no rule has found the same problem."""
    taken = {(each.line, each.column) for each in report if each.severity != "hint"}
    for found in findings:
        if (found.line, found.column) not in taken:
            report.add(found)


def _effective(root: Node, given: frozenset[str], report: Report) -> frozenset[str]:
    """Return the enabled extensions; ``-name`` of the operator wins."""
    denied = {name[1:] for name in given if name.startswith("-")}
    declared = declared_extensions(root)
    if refused := sorted(declared & denied):
        at = Location(root)["executor"]["spec"]["extensions"]
        message = f"the operator denies the extension '{refused[0]}'"
        report.error("S-01", "denied-extension", at, message, "see noetl config")
    switched_on = {name for name in given if not name.startswith("-")}
    return frozenset((switched_on | declared) - denied)


def finished(found: Diagnostic, strict: bool = False) -> Diagnostic:
    """Return the diagnostic for display: secrets masked, length limited."""
    severity = found.severity
    if strict and severity == "warning":
        severity = "error"
    return replace(
        found,
        message=_presentable(found.message),
        path=mask(found.path),
        hint=_presentable(found.hint) if found.hint is not None else None,
        severity=severity,
    )


def _presentable(text: str) -> str:
    """Mask secrets and control characters of the author's text in a message."""
    return shorten(" ".join(mask(text).split()), _MAX_MESSAGE_CHARS)
