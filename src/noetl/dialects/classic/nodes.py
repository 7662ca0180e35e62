"""New nodes out of old ones: each stands where the one that it came from stood."""

from __future__ import annotations

from collections.abc import Mapping

from noetl.dsl.node import Node
from noetl.types import JSON

Changes = Mapping[str, Node | None]
"""New values by key; None takes a key away."""


def made(value: JSON, at: Node) -> Node:
    """Nodes for a plain value, all of them at one place."""
    if isinstance(value, dict):
        return mapping({key: made(each, at) for key, each in value.items()}, at)
    if isinstance(value, list):
        return Node([made(each, at) for each in value], at.line, at.column)
    return Node(value, at.line, at.column)


def mapping(entries: dict[str, Node], at: Node) -> Node:
    """Keys that ``at`` has keep their marks."""
    node = Node(entries, at.line, at.column)
    here = (at.line, at.column)
    node.key_marks = {key: at.key_marks.get(key, here) for key in entries}
    return node


def changed(node: Node, changes: Changes) -> Node:
    """The mapping with other values; new keys come last."""
    if not changes:
        return node
    merged = {**node.entries, **changes}
    return mapping({k: v for k, v in merged.items() if v is not None}, node)


def renamed(node: Node, old: str, new: str) -> Node:
    """The mapping with one key under another name, at the same place."""
    entries = {new if k == old else k: v for k, v in node.entries.items()}
    found = mapping(entries, node)
    found.key_marks[new] = node.key_marks[old]
    return found


def listed(items: list[Node], at: Node) -> Node:
    return Node(items, at.line, at.column)


def text_of(node: Node | None) -> str | None:
    return node.value if node is not None and isinstance(node.value, str) else None
