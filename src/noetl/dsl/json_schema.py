"""JSON Schema for the data of signals and for inputs, within bounds.

The library ``jsonschema-rs`` checks schemas and data. It is imported for the first
schema, and never fetches anything: references lead to the same schema. This module
bounds the work: a reference must not lead back to itself, so each schema is a finite
tree, and regular expressions run in time linear in the text.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import unquote

import msgspec

from noetl.dsl.diagnostics import nearest
from noetl.dsl.node import shorten
from noetl.dsl.schema_words import TYPES, Path, place_words, problem_words, type_words
from noetl.types import JSON

if TYPE_CHECKING:
    from jsonschema_rs import Draft202012Validator

MAX_DEPTH = 32
MAX_PARTS = 1_000
"""Parts of a schema, counted once for each reference that leads to them."""
MAX_BYTES = 16 * 1024
"""Size of a schema; each event that waits for the signal contains it."""
MAX_PROBLEMS = 20
_MAX_COMPARISONS = 10_000
"""Parts of the schema times values; above it, problems are not listed."""
_PATTERN_BYTES = 64 * 1024
"""Memory limit of one compiled regular expression."""

FORMATS = (
    *("date", "date-time", "duration", "email", "hostname", "idn-email"),
    *("idn-hostname", "ipv4", "ipv6", "iri", "iri-reference", "json-pointer"),
    *("regex", "relative-json-pointer", "time", "uri", "uri-reference"),
    *("uri-template", "uuid"),
)
"""Formats that are checked; any other format has no effect."""
ANNOTATIONS = frozenset(
    {"$schema", "$comment", "title", "description", "default", "examples"}
)
_MAPS = ("properties", "patternProperties", "dependentSchemas", "$defs", "definitions")
_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
_SINGLE = ("items", "additionalProperties", "contains", "propertyNames")
_BRANCHES = ("not", "if", "then", "else")
_COUNT = "a whole number from 0 on"
EXPECTED = {
    "$ref": "a reference within the schema: '#/$defs/<name>'",
    "type": f"one or several of {', '.join(TYPES)}",
    "enum": "a list of values",
    "const": "a value",
    "required": "a list of different names",
    "dependentRequired": "a mapping of lists of names",
    "format": "a name",
    "pattern": "a short regular expression, without look-around and back references",
    "uniqueItems": "true or false",
    "multipleOf": "a number above 0",
    **dict.fromkeys(_MAPS, "a mapping of schemas"),
    "patternProperties": "a mapping of schemas by regular expressions, as in 'pattern'",
    **dict.fromkeys(_LISTS, "a list of schemas"),
    **dict.fromkeys((*_SINGLE, *_BRANCHES), "true, false or a schema"),
    **dict.fromkeys(("minimum", "maximum"), "a number"),
    **dict.fromkeys(("exclusiveMinimum", "exclusiveMaximum"), "a number"),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), _COUNT),
    **dict.fromkeys(("minProperties", "maxProperties"), _COUNT),
    **dict.fromkeys(("minContains", "maxContains"), _COUNT),
}
"""Supported keywords, each with its expected value in words."""
SCHEMA_WORDS = ", ".join(sorted(EXPECTED))

_TOO_LARGE = (
    f"the schema is too large: at most {MAX_PARTS:,} parts, nested {MAX_DEPTH} deep, "
    f"and {MAX_BYTES:,} bytes"
)


# -- flaws of a schema -------------------------------------------------------------


Flaw = tuple[Path, str]
"""Path of a keyword in the schema, and the message about it."""


def find_flaws(schema: JSON) -> list[str]:
    """Return messages about the schema itself, at most ``MAX_PROBLEMS``."""
    return list(dict.fromkeys(message for _, message in locate_flaws(schema)))


def locate_flaws(schema: JSON) -> list[Flaw]:
    """Return the flaws of a schema with their paths, at most ``MAX_PROBLEMS``."""
    if not isinstance(schema, dict):
        return [((), f"the schema must be a mapping, found {type_words(schema)}")]
    flaws = dict.fromkeys(_walk(schema))
    if ((), _TOO_LARGE) not in flaws:
        flaws |= dict.fromkeys(_wrong_values(schema))
    if not flaws:
        flaws = dict.fromkeys(_unusable(schema))
    return list(flaws)[:MAX_PROBLEMS]


def _walk(schema: dict[str, JSON]) -> Iterator[Flaw]:
    """Yield unknown keywords, references that lead nowhere or back, and an excessive
    size."""
    parts = 0
    pending: list[tuple[JSON, Path, tuple[Path, ...], int]] = [(schema, (), (), 1)]
    while pending:
        part, path, through, depth = pending.pop(0)
        parts += 1
        if parts > MAX_PARTS or depth > MAX_DEPTH:
            yield (), _TOO_LARGE
            return
        if not isinstance(part, dict):
            continue  # the library reports the expected value
        where = f"in {place_words(path)}, " if path else ""
        for word, flaw in _unknown_words(part):
            yield (*path, word), f"{where}{flaw}"
        if part.get("enum") == []:
            yield (*path, "enum"), f"{where}'enum' must be {EXPECTED['enum']}"
        pending += [(each, (*path, *at), through, depth + 1) for at, each in _in(part)]
        if isinstance(part.get("$ref"), str):
            target = _resolve(schema, part["$ref"])
            flaw = f"{where}'$ref' leads back to itself; a schema must have an end"
            if target is None:
                flaw = f"{where}'$ref' must be {EXPECTED['$ref']}, which exists"
            if target is None or target[0] in through:
                yield (*path, "$ref"), flaw
            else:
                steps = (*through, target[0])
                pending.append((target[1], target[0], steps, depth + 1))
    if _size_of(schema) > MAX_BYTES:
        yield (), _TOO_LARGE


def _in(part: dict[str, JSON]) -> Iterator[tuple[Path, JSON]]:
    """Yield the subschemas of a schema with their paths."""
    for word in _MAPS:
        if isinstance(part.get(word), dict):
            yield from (((word, name), each) for name, each in part[word].items())
    for word in _LISTS:
        if isinstance(part.get(word), list):
            yield from (((word, at), each) for at, each in enumerate(part[word]))
    for word in (*_SINGLE, *_BRANCHES):
        if word in part:
            yield (word,), part[word]


def _unknown_words(part: dict[str, JSON]) -> Iterator[tuple[str, str]]:
    for word in part:
        if word not in EXPECTED and word not in ANNOTATIONS:
            name, hint = shorten(str(word), 40), nearest(str(word), EXPECTED)
            known = f"did you mean '{hint}'?" if hint else f"known: {SCHEMA_WORDS}"
            yield word, f"'{name}' is not understood; {known}"


def _resolve(schema: JSON, reference: str) -> tuple[Path, JSON] | None:
    """Return the path and the part of a reference; None for another document."""
    start, _, pointer = reference.partition("#")
    if start or "#" not in reference or (pointer and not pointer.startswith("/")):
        return None
    path: list[str | int] = []
    part = schema
    for step in unquote(pointer).split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(part, list) and name.isdecimal() and int(name) < len(part):
            path.append(int(name))
        elif isinstance(part, dict) and name in part:
            path.append(name)
        else:
            return None
        part = part[path[-1]]
    return tuple(path), part


def _wrong_values(schema: dict[str, JSON]) -> Iterator[Flaw]:
    """Yield the keywords whose values the standard's metaschema rejects."""
    for error in _compile(_META).iter_errors(schema):
        yield _wrong_value(error.instance_path)


def _unusable(schema: dict[str, JSON]) -> Iterator[Flaw]:
    """Yield problems that only the compiler finds.

    These are a pattern that cannot be matched in linear time or takes too much memory,
    and a reference to a value that is not a schema.
    """
    from jsonschema_rs import ValidationError

    try:
        _compile(_encode(schema))
    except ValidationError as error:
        yield _wrong_value(error.instance_path or error.schema_path)


def _wrong_value(place: Sequence[str | int]) -> Flaw:
    path, word = _keyword_at(place)
    if word not in EXPECTED:
        where = place_words(place, "the schema")
        return tuple(place), f"{where} must be as JSON Schema 2020-12 has it"
    where = f"in {place_words(path)}, " if path else ""
    return (*path, word), f"{where}'{word}' must be {EXPECTED[word]}"


def _keyword_at(path: Sequence[str | int]) -> tuple[Path, str]:
    """Return the part of a schema at ``path``, and its keyword."""
    at = 0
    while at < len(path):
        word = str(path[at])
        deeper = 2 if word in _MAPS or word in _LISTS else 1
        is_value = word not in _SINGLE and word not in _BRANCHES and deeper == 1
        if is_value or at + deeper >= len(path):
            return tuple(path[:at]), word
        at += deeper
    return (), ""


# -- problems of data --------------------------------------------------------------


def find_problems(schema: JSON, data: JSON) -> list[str]:
    """Return messages about data that does not fit a valid schema, at most
    ``MAX_PROBLEMS``.

    A message contains types and lengths of the data, never a value, which may be a
    secret.
    """
    try:
        validator = _compile(_encode(schema))
    except ValueError:  # an execution may have begun before the check became stricter
        return find_flaws(schema)
    try:
        if validator.is_valid(data):
            return []
        if _count_comparisons(schema, data) > _MAX_COMPARISONS:
            return [
                "the data does not fit the schema; it is too large to name the part"
            ]
        problems: dict[str, None] = {}
        for error in validator.iter_errors(data):
            problems |= dict.fromkeys(problem_words(error, schema))
    except ValueError:
        return ["the data is not valid JSON, or is nested too deep"]
    return sorted(problems)[:MAX_PROBLEMS]


def _count_comparisons(schema: JSON, data: JSON) -> int:
    """Return an upper bound of the problems: parts of the schema times values."""
    values = _count([data], _MAX_COMPARISONS)
    parts, pending = 0, [schema]
    while pending and parts * values <= _MAX_COMPARISONS:
        part = pending.pop()
        parts += 1
        if isinstance(part, dict):
            pending += [each for _, each in _in(part)]
            target = _resolve(schema, part.get("$ref", "-"))
            pending += [target[1]] if target is not None else []
    return parts * values


def _count(pending: list[JSON], most: int) -> int:
    count = 0
    while pending and count <= most:
        value = pending.pop()
        count += 1
        if isinstance(value, dict | list):
            pending += value.values() if isinstance(value, dict) else value
    return count


# -- the library -------------------------------------------------------------------

_META = b'{"$ref":"https://json-schema.org/draft/2020-12/schema"}'
"""The metaschema of the standard, which the library contains."""
_encode = msgspec.json.Encoder().encode


@lru_cache(maxsize=64)
def _compile(schema: bytes) -> Draft202012Validator:
    """Return a validator that fetches nothing and matches patterns in linear time."""
    from jsonschema_rs import Draft202012Validator, RegexOptions

    return Draft202012Validator(
        schema.decode(),
        validate_formats=True,
        pattern_options=RegexOptions(size_limit=_PATTERN_BYTES),
        offline=True,
    )


def _size_of(schema: JSON) -> int:
    try:
        return len(_encode(schema))
    except (OverflowError, RecursionError, TypeError, ValueError):
        return MAX_BYTES + 1
