"""A YAML value with its position."""

from __future__ import annotations

from noetl.types import JSON


class Node:
    """A value and where it stands: a scalar, a list of nodes or a dict of nodes."""

    __slots__ = ("column", "key_marks", "line", "text", "value", "weight")

    def __init__(self, value: JSON, line: int, column: int) -> None:
        self.value = value
        self.line = line
        self.column = column
        self.text: str | None = None  # as written, where that differs from the value
        self.key_marks: dict[str, tuple[int, int]] = {}
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
    """Quote at most ``limit`` printable characters; say so when more were there."""
    shown = "".join(char if char.isprintable() else "\ufffd" for char in text[:limit])
    return shown + ("…" if len(text) > limit else "")
