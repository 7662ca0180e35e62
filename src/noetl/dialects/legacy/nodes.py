"""Construction of nodes with the positions of their source."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from noetl.dsl.diagnostics import Report
from noetl.dsl.node import Location, Node
from noetl.types import JSON


def make(value: JSON, like: Node) -> Node:
    """Return a tree of nodes at the position of ``like``; nodes in it are kept."""
    if isinstance(value, Node):
        return value
    node = Node(value, like.line, like.column)
    if isinstance(value, Mapping):
        node.value = {key: make(inner, like) for key, inner in value.items()}
        node.key_marks = dict.fromkeys(value, (like.line, like.column))
    elif isinstance(value, list | tuple):
        node.value = [make(inner, like) for inner in value]
    return node


def changed(
    node: Node, entries: Mapping[str, JSON], without: frozenset[str] = frozenset()
) -> Node:
    """Return a mapping with replaced entries, and without some keys."""
    kept = {key: child for key, child in node.entries.items() if key not in without}
    fresh = make(entries, node)
    result = Node({**kept, **fresh.value}, node.line, node.column)
    result.key_marks = {**fresh.key_marks, **node.key_marks}
    return result


def each_text(node: Node, change: Callable[[str], str]) -> Node:
    """Return the same tree with every text changed."""
    value = node.value
    if isinstance(value, dict):
        copy = Node(
            {key: each_text(child, change) for key, child in value.items()},
            node.line,
            node.column,
        )
        copy.key_marks = node.key_marks
        return copy
    if isinstance(value, list):
        return Node(
            [each_text(child, change) for child in value], node.line, node.column
        )
    if not isinstance(value, str):
        return node
    copy = Node(change(value), node.line, node.column)
    copy.text = node.text
    return copy


def texts_of(node: Node) -> list[str]:
    """Return every text of a tree."""
    value = node.value
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for child in value.values() for text in texts_of(child)]
    if isinstance(value, list):
        return [text for child in value for text in texts_of(child)]
    return []


def note_use(report: Report, at: Location, what: str, replacement: str) -> None:
    message = f"'{what}' is accepted by the 'legacy' extension"
    report.warn("S-01", "dialect", at, message, replacement)
