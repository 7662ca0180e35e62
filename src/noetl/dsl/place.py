"""A spot in a document: the node, and the path that leads to it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from noetl.dsl.node import KEY_SHOWN, shorten

if TYPE_CHECKING:
    from collections.abc import Iterator

    from noetl.dsl.node import Node


class Place:
    """A node together with its path, so that every finding can say where it is.

    Thousands are made and few are asked: path and mark are worked out on demand.
    """

    __slots__ = ("_key_mark", "node", "parent", "part")

    def __init__(
        self, node: Node, parent: Place | None = None, part: str | int = ""
    ) -> None:
        self.node = node
        self.parent = parent
        self.part = part
        self._key_mark: tuple[int, int] | None = None

    @property
    def mark(self) -> tuple[int, int]:
        """Line and column, both from 1."""
        return self._key_mark or (self.node.line, self.node.column)

    @property
    def path(self) -> tuple[str | int, ...]:
        parts: list[str | int] = []
        here = self
        while here.parent is not None:
            parts.append(here.part)
            here = here.parent
        return tuple(reversed(parts))

    @property
    def dotted(self) -> str:
        """``workflow[1].next.arcs[0].step``"""
        parts: list[str] = []
        for part in self.path:
            if isinstance(part, int):
                parts.append(f"[{part}]")
            else:
                name = shorten(part, KEY_SHOWN)  # it may be a megabyte
                parts.append(f".{name}" if parts else name)
        return "".join(parts)

    def __contains__(self, key: str) -> bool:
        value = self.node.value
        return type(value) is dict and key in value

    def __getitem__(self, part: str | int) -> Place:
        return Place(self.node.value[part], self, part)

    def get(self, key: str) -> Place | None:
        value = self.node.value
        if type(value) is dict and key in value:
            return Place(value[key], self, key)
        return None

    def key(self, key: str) -> Place:
        """The same child, but pointing at its key instead of its value."""
        place = self[key]
        place._key_mark = self.node.key_marks[key]
        return place

    def child_keys(self) -> Iterator[str]:
        return iter(self.node.entries)

    def children(self) -> Iterator[Place]:
        """The items of a sequence, or the values of a mapping."""
        value = self.node.value
        if type(value) is dict:
            for key, child in value.items():
                yield Place(child, self, key)
        elif type(value) is list:
            for index, child in enumerate(value):
                yield Place(child, self, index)
