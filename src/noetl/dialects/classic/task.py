"""A task while it is rewritten."""

from __future__ import annotations

from noetl.dialects.classic.nodes import Changes, changed, made, renamed
from noetl.dialects.classic.uses import Uses
from noetl.dsl.node import Node, overlay
from noetl.dsl.place import Place
from noetl.types import JSON


class Task:
    """``at`` is the task as written, ``node`` as far as it is rewritten."""

    def __init__(self, at: Place, uses: Uses) -> None:
        self.at = at
        self.node = at.node
        self._uses = uses

    def __contains__(self, key: str) -> bool:
        return key in self.node.entries

    @property
    def is_done(self) -> bool:
        """Whether it was rewritten before: the canonical form is read again."""
        spec = self.get("spec")
        return spec is not None and "dialect" in spec.entries

    def get(self, key: str) -> Node | None:
        return self.node.entries.get(key)

    def change(self, changes: Changes) -> None:
        self.node = changed(self.node, changes)

    def rename(self, old: str, new: str) -> None:
        """An input under its canonical name."""
        self.accept(old, f"'{old}'", f"{new}: …")
        self.node = renamed(self.node, old, new)

    def to_spec(self, key: str, knob: str | None = None) -> None:
        """An input that is a knob."""
        knob = knob or key
        value = self.node.entries[key]
        self.accept(key, f"'{key}' beside the inputs", f"spec: {{{knob}: …}}")
        self.change({key: None})
        self.set_spec(knob, value)

    def set_spec(self, knob: str, value: Node | JSON) -> None:
        """A knob, unless the author has set it."""
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
