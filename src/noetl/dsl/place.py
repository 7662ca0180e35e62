"""A spot in a document: the node, and the path that leads to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from noetl.dsl.node import Node


class Place:
    """A node together with its path, so that every finding can say where it is."""

    __slots__ = ("mark", "node", "path")

    def __init__(
        self, node: Node, path: tuple[str | int, ...], mark: tuple[int, int]
    ) -> None:
        self.node = node
        self.path = path
        self.mark = mark

    @classmethod
    def root(cls, node: Node) -> Place:
        return cls(node, (), (node.line, node.column))

    @property
    def dotted(self) -> str:
        """``workflow[1].next.arcs[0].step``"""
        parts: list[str] = []
        for part in self.path:
            if isinstance(part, int):
                parts.append(f"[{part}]")
            else:
                parts.append(f".{part}" if parts else part)
        return "".join(parts)

    def __contains__(self, key: str) -> bool:
        return key in self.node.entries

    def __getitem__(self, part: str | int) -> Place:
        child = (
            self.node.items[part] if isinstance(part, int) else self.node.entries[part]
        )
        return Place(child, (*self.path, part), (child.line, child.column))

    def get(self, key: str) -> Place | None:
        return self[key] if key in self.node.entries else None

    def key(self, key: str) -> Place:
        """The same child, but pointing at its key instead of its value."""
        child = self.node.entries[key]
        return Place(child, (*self.path, key), self.node.key_marks[key])

    def child_keys(self) -> Iterator[str]:
        return iter(self.node.entries)

    def children(self) -> Iterator[Place]:
        """The items of a sequence, or the values of a mapping."""
        if self.node.is_mapping:
            for key in self.node.entries:
                yield self[key]
        elif self.node.is_sequence:
            for index in range(len(self.node.items)):
                yield self[index]
