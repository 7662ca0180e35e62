"""YAML values with their positions, and locations in a document."""

from __future__ import annotations

from typing import TYPE_CHECKING

from noetl.dsl.secret_patterns import mask
from noetl.types import JSON

if TYPE_CHECKING:
    from collections.abc import Iterator

KEY_SHOWN = 80
_MAX_SECRET_CHARS = 2_048
_NO_MARKS: dict[str, tuple[int, int]] = {}


class Node:
    """Value with its position: a scalar, a list of nodes or a dict of nodes."""

    __slots__ = ("column", "key_marks", "line", "text", "value", "weight")

    def __init__(self, value: JSON, line: int, column: int) -> None:
        self.value = value
        self.line = line
        self.column = column
        self.text: str | None = None  # as written, where that differs from the value
        self.key_marks = _NO_MARKS  # a mapping gets its own
        self.weight = 1  # nodes below and with this one, aliases expanded

    @property
    def is_mapping(self) -> bool:
        return type(self.value) is dict

    @property
    def is_sequence(self) -> bool:
        return type(self.value) is list

    @property
    def entries(self) -> dict[str, Node]:
        return self.value if type(self.value) is dict else {}

    @property
    def items(self) -> list[Node]:
        return self.value if type(self.value) is list else []

    def plain(self) -> JSON:
        """Return the value without positions."""
        value = self.value
        if type(value) is dict:
            return {key: child.plain() for key, child in value.items()}
        if type(value) is list:
            return [child.plain() for child in value]
        return value


def describe(node: Node) -> str:
    """Describe a value for its author: ``the number 5``, ``a list``."""
    value = node.value
    match value:
        case dict():
            return "a mapping"
        case list():
            return "a list"
        case None:
            return "nothing (null)"
        case bool():
            return f"the boolean {str(value).lower()}"
        case int() | float():
            return f"the number {node.text or value}"
        case _:
            return f"the text '{shorten(value)}'"


def shorten(text: str, limit: int = 40) -> str:
    """Quote at most ``limit`` printable characters, with ``…`` for the rest.

    Text that looks like a secret is masked before the cut, which could split it.
    """
    if len(text) > limit:
        text = mask(text[: limit + _MAX_SECRET_CHARS])
    shown = printable(text[:limit])
    return shown + ("…" if len(text) > limit else "")


def printable(text: str) -> str:
    """Return the text with control and formatting characters made visible."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else "\ufffd" for char in text)


def overlay(inner: Node, outer: Node) -> Node:
    """Merge mappings key by key, each value with its own position; else ``inner``."""
    if not (inner.is_mapping and outer.is_mapping):
        return inner
    merged = Node({**outer.entries, **inner.entries}, inner.line, inner.column)
    merged.key_marks = {**outer.key_marks, **inner.key_marks}
    for key in inner.entries.keys() & outer.entries.keys():
        merged.value[key] = overlay(inner.entries[key], outer.entries[key])
    return merged


class Location:
    """Node with its path, for diagnostics.

    Thousands of locations are created and few are shown, so path and mark are computed
    on demand.
    """

    __slots__ = ("_key_mark", "node", "parent", "part")

    def __init__(
        self, node: Node, parent: Location | None = None, part: str | int = ""
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
        """Path as text: ``workflow[1].next.arcs[0].step``."""
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

    def __getitem__(self, part: str | int) -> Location:
        return Location(self.node.value[part], self, part)

    def get(self, key: str) -> Location | None:
        value = self.node.value
        if type(value) is dict and key in value:
            return Location(value[key], self, key)
        return None

    def key(self, key: str) -> Location:
        """Return the same child, with the position of its key instead of its value."""
        place = self[key]
        place._key_mark = self.node.key_marks[key]
        return place

    def marked(self, line: int, column: int) -> Location:
        """Return the same node at another position, such as a line of its text."""
        place = Location(self.node, self.parent, self.part)
        place._key_mark = (line, column)
        return place

    def child_keys(self) -> Iterator[str]:
        return iter(self.node.entries)

    def children(self) -> Iterator[Location]:
        """Yield the items of a sequence, or the values of a mapping."""
        value = self.node.value
        if type(value) is dict:
            for key, child in value.items():
                yield Location(child, self, key)
        elif type(value) is list:
            for index, child in enumerate(value):
                yield Location(child, self, index)


Way = tuple[JSON, ...]
"""A path from a node down, as nested pairs: ``((), key), index``. It is cheaper to
carry than a location, of which few are needed."""


def follow(root: Location, way: Way) -> Location:
    """Return the location at the end of a way."""
    return follow(root, way[0])[way[1]] if way else root
