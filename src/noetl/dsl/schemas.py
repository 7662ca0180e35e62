"""JSON Schema for what people send: a part of it, bounded, with words for people.

The part has no references and no patterns, so a check costs at most one look at each
value for each part of the schema, whoever wrote the one and sent the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from noetl.dsl.diagnostics import nearest
from noetl.dsl.node import shorten
from noetl.types import JSON

DEEPEST = 32
MOST_PARTS = 1_000
MOST_PROBLEMS = 20

TYPES = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "object": "a mapping",
    "array": "a list",
    "null": "null",
}
_BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_COUNTS = ("minLength", "maxLength", "minItems", "maxItems")
_CHOICES = ("anyOf", "oneOf", "allOf")
ANNOTATIONS = frozenset(
    {"$schema", "$comment", "title", "description", "default", "examples", "format"}
)
KEYWORDS = frozenset(
    {"type", "enum", "const", "properties", "required", "additionalProperties"}
    | {"items", *_BOUNDS, *_COUNTS, *_CHOICES}
)
SCHEMA_WORDS = ", ".join(sorted(KEYWORDS))
"""All that is understood, as a sentence lists it."""

Path = tuple[str | int, ...]


def find_flaws(schema: JSON) -> list[str]:
    """What is wrong with a schema itself, in sentences; at most some of it."""
    flaws: list[str] = []
    parts = 0
    pending: list[tuple[JSON, Path]] = [(schema, ())]
    while pending and len(flaws) < MOST_PROBLEMS:
        part, path = pending.pop(0)
        parts += 1
        if parts > MOST_PARTS or len(path) > 2 * DEEPEST:
            limit = f"{MOST_PARTS:,} parts, nested {DEEPEST} deep"
            return [*flaws, f"the schema is too large: at most {limit}"]
        if not isinstance(part, dict):
            where = place_words(path, "the schema")
            flaws.append(f"{where} must be a mapping, found {type_words(part)}")
            continue
        where = f"in {place_words(path)}, " if path else ""
        flaws += [f"{where}{flaw}" for flaw in _flaws_of(part)]
        pending += [(each, (*path, *at)) for at, each in _inside(part)]
    return flaws


def _inside(part: dict[str, JSON]) -> Iterator[tuple[Path, JSON]]:
    """The schemas of a schema."""
    properties = part.get("properties")
    if isinstance(properties, dict):
        for name, each in properties.items():
            yield ("properties", name), each
    if "items" in part:
        yield ("items",), part["items"]
    if isinstance(part.get("additionalProperties"), dict):
        yield ("additionalProperties",), part["additionalProperties"]
    for word in _CHOICES:
        if isinstance(part.get(word), list):
            for number, each in enumerate(part[word]):
                yield (word, number), each


def _flaws_of(part: dict[str, JSON]) -> Iterator[str]:
    for word, value in part.items():
        if word in _EXPECTED:
            expected, fits = _EXPECTED[word]
            if not fits(value):
                yield f"'{word}' must be {expected}"
        elif word not in ANNOTATIONS:
            name, hint = shorten(str(word), 40), nearest(str(word), KEYWORDS)
            known = f"did you mean '{hint}'?" if hint else f"known: {SCHEMA_WORDS}"
            yield f"'{name}' is not understood; {known}"


def _is_type(value: JSON) -> bool:
    names = value if isinstance(value, list) else [value]
    return bool(names) and all(isinstance(n, str) and n in TYPES for n in names)


def _is_list(value: JSON) -> bool:
    return isinstance(value, list) and bool(value)


def is_number(value: JSON) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_count(value: JSON) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _is_names(value: JSON) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


_EXPECTED: Mapping[str, tuple[str, Callable[[JSON], bool]]] = {
    "type": (f"one or several of {', '.join(TYPES)}", _is_type),
    "enum": ("a list of values", _is_list),
    "const": ("a value", lambda value: True),
    "properties": ("a mapping of schemas", lambda value: isinstance(value, dict)),
    "required": ("a list of names", _is_names),
    "additionalProperties": (
        "true, false or a schema",
        lambda value: isinstance(value, bool | dict),
    ),
    "items": ("a schema", lambda value: True),  # looked at by itself
    **dict.fromkeys(_BOUNDS, ("a number", is_number)),
    **dict.fromkeys(_COUNTS, ("a whole number from 0 on", _is_count)),
    **dict.fromkeys(_CHOICES, ("a list of schemas", _is_list)),
}


def is_of(name: str, value: JSON) -> bool:
    match name:
        case "null":
            return value is None
        case "boolean":
            return isinstance(value, bool)
        case "number":
            return is_number(value)
        case "integer":
            return is_number(value) and (isinstance(value, int) or value.is_integer())
        case "string":
            return isinstance(value, str)
        case "array":
            return isinstance(value, list)
        case _:
            return isinstance(value, dict)


def type_words(value: JSON) -> str:
    """Of what type it is; never the value, which may be a secret."""
    return next(words for name, words in TYPES.items() if is_of(name, value))


def place_words(path: Path, whole: str = "the data") -> str:
    if not path:
        return whole
    words = "".join(
        f"[{part}]" if isinstance(part, int) else f".{shorten(part, 40)}"
        for part in path
    )
    return f"'{words.lstrip('.')}'"
