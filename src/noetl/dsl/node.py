"""A YAML value with its position."""

from __future__ import annotations

from noetl.dsl.secrets import mask
from noetl.types import JSON

KEY_SHOWN = 80
_LONG_SECRET = 2_048
_NO_MARKS: dict[str, tuple[int, int]] = {}


class Node:
    """A value and where it stands: a scalar, a list of nodes or a dict of nodes."""

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
        """The value without positions."""
        value = self.value
        if type(value) is dict:
            return {key: child.plain() for key, child in value.items()}
        if type(value) is list:
            return [child.plain() for child in value]
        return value


def describe(node: Node) -> str:
    """What was found, in an author's words: ``the number 5``, ``a list``."""
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
    """Quote at most ``limit`` printable characters; say so when more were there.

    What looks like a secret is hidden before the cut, which could halve it.
    """
    if len(text) > limit:
        text = mask(text[: limit + _LONG_SECRET])
    shown = printable(text[:limit])
    return shown + ("…" if len(text) > limit else "")


def printable(text: str) -> str:
    """The text with control and formatting characters made visible."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else "\ufffd" for char in text)


def overlay(inner: Node, outer: Node) -> Node:
    """Mappings merge key by key, each value with its own position; else ``inner``."""
    if not (inner.is_mapping and outer.is_mapping):
        return inner
    merged = Node({**outer.entries, **inner.entries}, inner.line, inner.column)
    merged.key_marks = {**outer.key_marks, **inner.key_marks}
    for key in inner.entries.keys() & outer.entries.keys():
        merged.value[key] = overlay(inner.entries[key], outer.entries[key])
    return merged
