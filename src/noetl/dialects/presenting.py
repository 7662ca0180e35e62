"""What a dialect made of a document, as its author would write it."""

from __future__ import annotations

from noetl.dialects.classic.results import is_bare
from noetl.dsl.node import Node

KNOBS = ("dialect", "statements")
"""Keys that a dialect puts on tasks each time that it reads them."""


def presentable(old: Node, new: Node) -> Node:
    """Without what the dialect adds by itself each time that it reads."""
    if "kind" in old.entries and [len(task.entries) for task in new.items] == [1]:
        new = _named(new.items[0])
    if new.is_sequence:
        pairs = _paired(old, new)
        return like(new, [presentable(before, after) for before, after in pairs])
    if not new.is_mapping:
        return new
    if "tool" in new.entries and is_bare(old):
        return old  # a bare last step: its result is the dialect's
    entries: dict[str, Node] = {}
    for key, value in new.entries.items():
        before = old.entries.get(key)
        if key == "_result" or (key == "keychain" and before is None):
            continue
        if key in KNOBS and before is None:
            continue
        if key == "data" and before is None and "form" in old.entries:
            key, value = "form", old.entries["form"]  # `data` would be read as JSON
        entries[key] = presentable(before or Node(None, 0, 0), value)
    shown = {
        key: each
        for key, each in entries.items()
        if not (
            key in ("spec", "args") and each.value == {} and not _is_empty(old, key)
        )
    }
    return like(new, shown)


def _named(entry: Node) -> Node:
    """The only task of a pipeline, labelled inside of its mapping."""
    [(label, body)] = entry.entries.items()
    entries = {"name": Node(label, entry.line, entry.column), **body.entries}
    named = Node(entries, body.line, body.column)
    named.key_marks = {"name": (0, 0), **body.key_marks}
    return named


def _is_empty(node: Node, key: str) -> bool:
    return key in node.entries and node.entries[key].value == {}


def _paired(old: Node, new: Node) -> list[tuple[Node, Node]]:
    nothing = Node(None, 0, 0)
    olds = [*old.items, *[nothing] * (len(new.items) - len(old.items))]
    return list(zip(olds, new.items, strict=False))


def like(node: Node, value: dict[str, Node] | list[Node]) -> Node:
    found = Node(value, node.line, node.column)
    found.key_marks = node.key_marks
    return found
