"""Messages about data that does not fit a JSON Schema.

A message contains types and lengths of the data, never a value, which may be a secret.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from noetl.dsl.diagnostics import did_you_mean
from noetl.dsl.node import shorten
from noetl.types import JSON

if TYPE_CHECKING:
    from jsonschema_rs import ValidationError

Path = tuple[str | int, ...]

TYPES = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "object": "a mapping",
    "array": "a list",
    "null": "null",
}
_LIMITS = {
    "minimum": "{} or more",
    "maximum": "{} or less",
    "exclusiveMinimum": "more than {}",
    "exclusiveMaximum": "less than {}",
    "multipleOf": "a multiple of {}",
}
_OTHERS = {
    "format": "must have the format '{}'",
    "pattern": "must match the pattern '{}'",
    "propertyNames": "has a member whose name does not fit 'propertyNames'",
    "uniqueItems": "must not have equal elements",
}
_COUNTED = {"Length": "characters", "Items": "elements", "Properties": "members"}


def problem_words(error: ValidationError, schema: JSON) -> Iterator[str]:
    """Yield messages about one error of the library; ``schema`` is the whole schema."""
    path, word, value = tuple(error.instance_path), error.kind.name, error.kind.value
    where = place_words(path)
    if word == "type":
        expected = words_of_types(value)
        yield f"{where} must be {expected}, found {type_words(error.instance)}"
    elif word == "required":
        yield f"{place_words((*path, value))} is missing"
    elif word == "falseSchema":
        is_rest = error.schema_path[-1:] == ["additionalProperties"]
        yield (
            f"{where} must be an empty mapping"
            if is_rest
            else f"{where} is not expected"
        )
    elif word == "additionalProperties":
        yield from _unexpected(error, path, schema)
    elif word == "enum":
        yield f"{where} must be one of {list_values(value)}"
    elif word == "const":
        yield f"{where} must be {_shown(value)}"
    elif word in _LIMITS:
        yield f"{where} must be {_LIMITS[word].format(value)}"
    elif word[:3] in ("min", "max") and word[3:] in _COUNTED:
        than = "more" if word.startswith("min") else "fewer"
        what, found = _COUNTED[word[3:]], len(error.instance)  # type: ignore[arg-type]
        yield f"{where} must have {value:,} {what} or {than}, found {found:,}"
    elif word in ("anyOf", "oneOf"):
        yield _unchosen(value, where, schema)
    else:
        words = _OTHERS.get(word, f"does not fit '{word}'")
        yield f"{where} {words.format(shorten(str(value), 80))}"


def _unexpected(error: ValidationError, path: Path, schema: JSON) -> Iterator[str]:
    part = schema
    for step in error.schema_path[:-1]:
        part = part[step]
    known = part.get("properties", {})
    for name in error.kind.value:
        hint = did_you_mean(name, known) or "nothing is expected here"
        yield f"{place_words((*path, name))} is not expected; {hint}"


def _unchosen(context: list[list[ValidationError]], where: str, schema: JSON) -> str:
    fitting = context.count([])
    if fitting:
        return f"{where} fits {fitting} schemas of which one must fit"
    reasons = "; or ".join(next(problem_words(each[0], schema)) for each in context)
    return f"{where} fits none of {len(context)} schemas: {reasons}"


def type_words(value: object) -> str:
    """Return the type in words; never the value, which may be a secret."""
    match value:
        case None:
            return TYPES["null"]
        case bool():
            return TYPES["boolean"]
        case str():
            return TYPES["string"]
        case list():
            return TYPES["array"]
        case dict():
            return TYPES["object"]
        case float() if not value.is_integer():
            return TYPES["number"]
        case _:
            return TYPES["integer"]


def place_words(path: Iterable[str | int], whole: str = "the data") -> str:
    words = "".join(
        f"[{part}]" if isinstance(part, int) else f".{shorten(part, 40)}"
        for part in path
    )
    return f"'{words.lstrip('.')}'" if words else whole


def _shown(value: JSON) -> str:
    if isinstance(value, str):
        return f"'{shorten(value, 40)}'"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return shorten(str(value), 40)


def words_of_types(types: JSON) -> str:
    """Return the value of ``type`` in words: ``text or null``."""
    names = [types] if isinstance(types, str) else types
    return " or ".join(words for name, words in TYPES.items() if name in names)


def list_values(values: Sequence[JSON]) -> str:
    """List the first values of ``enum``."""
    shown = ", ".join(_shown(each) for each in values[:12])
    return shown if len(values) <= 12 else f"{shown}, …"
