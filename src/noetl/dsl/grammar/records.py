"""Building blocks of the grammar: shapes, fields and records."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from typing import Literal

import msgspec

from noetl.dsl.grammar.earlier_forms import Retired
from noetl.dsl.node import Node

Type = Literal["text", "integer", "number", "boolean", "mapping", "list", "null"]

_WORDS: dict[Type, str] = {
    "text": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "mapping": "a mapping",
    "list": "a list",
    "null": "null",
}


class Shape(msgspec.Struct, frozen=True):
    """Accepted types of a value; a shape without types accepts any value."""

    types: tuple[Type, ...] = ()
    choices: tuple[str, ...] = ()
    low: int | None = None
    high: int | None = None
    record: str | None = None  # the record a mapping follows, for the editor schema
    items: Shape | None = None
    template: bool = False  # a template that yields it is accepted, too
    words: str = ""
    hint: str | None = None  # hint for a value of another type

    def __str__(self) -> str:
        if self.words:
            return self.words
        if len(self.choices) == 1:
            return self.choices[0]
        if self.choices:
            return "one of " + ", ".join(self.choices)
        return " or ".join(_WORDS[name] for name in self.types) or "anything"

    def accepts(self, node: Node) -> bool:
        """Return whether the node's type fits; choices and ranges are checked
        separately."""
        if not self.types:
            return True
        name = type_of(node)
        return name in self.types or (name == "integer" and "number" in self.types)


def type_of(node: Node) -> Type:
    match node.value:
        case dict():
            return "mapping"
        case list():
            return "list"
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case _:
            return "text"


TEXT = Shape(("text",))
BOOLEAN = Shape(("boolean",))
MAPPING = Shape(("mapping",))
LIST = Shape(("list",))
ANY = Shape()
GUARD = Shape(("text", "boolean"), words='a template such as "{{ … }}", or true/false')
DURATION = Shape(
    ("number", "text"),
    words="a duration: seconds, 500ms, 30s, 5m, 2h, 1d or a template",
)


def one_of(*choices: str) -> Shape:
    return Shape(("text",), choices=choices)


def integer(low: int, high: int) -> Shape:
    return Shape(("integer",), low=low, high=high)


def mapping_of(record: str) -> Shape:
    return Shape(("mapping",), record=record)


def list_of(items: Shape) -> Shape:
    return Shape(("list",), items=items)


class Field(msgspec.Struct, frozen=True):
    """Key of a record: its shape, its requirement and its line in the reference."""

    shape: Shape
    code: str
    doc: str
    missing: str | None = None  # the code if it is required and absent
    choice: str | None = None  # the code of a value outside the choices or range


class Record(msgspec.Struct, frozen=True, dict=True):
    """Mapping with known keys. ``unknown`` is the treatment of unknown keys."""

    name: str
    what: str  # in a sentence: "a step", "the router"
    fields: Mapping[str, Field]
    retired: Mapping[str, Retired] = msgspec.field(default_factory=dict)
    unknown: Literal["error", "warning", "allow"] = "error"
    unknown_code: str = "S-50"
    knobs: frozenset[str] = frozenset()  # keys of its spec, often put one level up

    @cached_property
    def required(self) -> tuple[str, ...]:
        return tuple(key for key, each in self.fields.items() if each.missing)


POOL = Field(TEXT, "S-64", "The worker pool that runs it (`default`).")
RATE = Field(
    Shape(("text", "mapping"), record="rate", words="a rate such as 5/s, or a mapping"),
    "S-78",
    "The maximum of calls per second, minute, hour or day: `5/s`, `100/m`.",
)
SLOTS = Field(
    mapping_of("slots"), "S-78", "The maximum of calls that run at the same time."
)
TIMEOUT = Field(
    Shape(("number", "text", "mapping"), words=f"{DURATION}, or a mapping per phase"),
    "S-35",
    "The maximum duration of one attempt of a task.",
)
