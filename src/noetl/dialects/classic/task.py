"""Task during rewriting."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from noetl.dsl.diagnostics import Report
from noetl.dsl.node import Location, Node, overlay
from noetl.types import JSON


class Uses(msgspec.Struct, frozen=True):
    """Reports one warning for each use of the dialect (S-01)."""

    report: Report

    def accept(self, at: Location, what: str, canonical: str) -> None:
        message = f"{what} is accepted by the 'classic' extension"
        self.report.warn("S-01", "dialect", at, message, f"canonical form: {canonical}")

    def refuse(self, at: Location, message: str, hint: str) -> None:
        """Report a construct that even the dialect cannot run."""
        self.report.error("S-01", "dialect", at, message, hint)


def silent() -> Uses:
    """Return a reporter whose warnings are dropped."""
    return Uses(Report())


Changes = Mapping[str, Node | None]
"""New values by key; None removes a key."""


def made(value: JSON, at: Node) -> Node:
    """Return nodes for a plain value, all at one position."""
    if isinstance(value, dict):
        return mapping({key: made(each, at) for key, each in value.items()}, at)
    if isinstance(value, list):
        return Node([made(each, at) for each in value], at.line, at.column)
    return Node(value, at.line, at.column)


def mapping(entries: dict[str, Node], at: Node) -> Node:
    """Return a mapping; keys that ``at`` has keep their marks."""
    node = Node(entries, at.line, at.column)
    here = (at.line, at.column)
    node.key_marks = {key: at.key_marks.get(key, here) for key in entries}
    return node


def changed(node: Node, changes: Changes) -> Node:
    """Return the mapping with other values; new keys come last."""
    if not changes:
        return node
    merged = {**node.entries, **changes}
    return mapping({k: v for k, v in merged.items() if v is not None}, node)


def renamed(node: Node, old: str, new: str) -> Node:
    """Return the mapping with one key renamed, at the same position."""
    entries = {new if k == old else k: v for k, v in node.entries.items()}
    found = mapping(entries, node)
    found.key_marks[new] = node.key_marks[old]
    return found


def listed(items: list[Node], at: Node) -> Node:
    return Node(items, at.line, at.column)


def text_of(node: Node | None) -> str | None:
    return node.value if node is not None and isinstance(node.value, str) else None


class Task:
    """Task: ``at`` is the original, ``node`` the rewritten form so far."""

    def __init__(self, at: Location, uses: Uses) -> None:
        self.at = at
        self.node = at.node
        self._uses = uses

    def __contains__(self, key: str) -> bool:
        return key in self.node.entries

    @property
    def is_done(self) -> bool:
        """True if the task was rewritten before: the canonical form is read again."""
        spec = self.get("spec")
        return spec is not None and "dialect" in spec.entries

    def get(self, key: str) -> Node | None:
        return self.node.entries.get(key)

    def change(self, changes: Changes) -> None:
        self.node = changed(self.node, changes)

    def rename(self, old: str, new: str) -> None:
        """Rename an input to its canonical name."""
        self.accept(old, f"'{old}'", f"{new}: …")
        self.node = renamed(self.node, old, new)

    def to_spec(self, key: str, knob: str | None = None) -> None:
        """Move an input that is a knob into ``spec``."""
        knob = knob or key
        value = self.node.entries[key]
        self.accept(key, f"'{key}' beside the inputs", f"spec: {{{knob}: …}}")
        self.change({key: None})
        self.set_spec(knob, value)

    def set_spec(self, knob: str, value: Node | JSON) -> None:
        """Set a knob, unless the author has set it."""
        at = self.node
        new = value if isinstance(value, Node) else made(value, at)
        own = made({}, at)
        own.value[knob], own.key_marks = new, {knob: (new.line, new.column)}
        spec = self.get("spec")
        self.change({"spec": own if spec is None else overlay(spec, own)})

    def accept(self, key: str, what: str, canonical: str) -> None:
        """Warn, at the key as it is written."""
        at = self.at.key(key) if key in self.at else self.at
        self._uses.accept(at, what, canonical)

    def refuse(self, key: str, message: str, hint: str) -> None:
        self._uses.refuse(self.at.key(key), message, hint)
