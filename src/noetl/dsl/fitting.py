"""Data against a schema: what does not fit, in words for whoever sent them.

A message tells the types of what was sent, never a value: that may be a secret.
"""

from __future__ import annotations

from collections.abc import Iterator

from noetl.dsl.diagnostics import did_you_mean
from noetl.dsl.node import shorten
from noetl.dsl.schemas import (
    MOST_PROBLEMS,
    TYPES,
    Path,
    is_number,
    is_of,
    place_words,
    type_words,
)
from noetl.types import JSON


def find_problems(schema: JSON, data: JSON) -> list[str]:
    """What of the data does not fit a sound schema, in sentences; at most some."""
    problems: list[str] = []
    for problem in _problems(schema, data, ()):
        problems.append(problem)
        if len(problems) == MOST_PROBLEMS:
            break
    return problems


def _problems(schema: dict[str, JSON], value: JSON, path: Path) -> Iterator[str]:
    types = schema.get("type")
    if types is not None:
        names = types if isinstance(types, list) else [types]
        if not any(is_of(name, value) for name in names):
            expected = " or ".join(TYPES[name] for name in names)
            yield f"{place_words(path)} must be {expected}, found {type_words(value)}"
            return
    if "enum" in schema and not any(_is_same(value, each) for each in schema["enum"]):
        yield f"{place_words(path)} must be one of {_listed(schema['enum'])}"
    if "const" in schema and not _is_same(value, schema["const"]):
        yield f"{place_words(path)} must be {_shown(schema['const'])}"
    if is_number(value):
        yield from _out_of_bounds(schema, value, path)
    elif isinstance(value, str):
        yield from _wrong_length(schema, len(value), "Length", "characters", path)
    elif isinstance(value, list):
        yield from _wrong_length(schema, len(value), "Items", "elements", path)
        for number, each in enumerate(value if "items" in schema else ()):
            yield from _problems(schema["items"], each, (*path, number))
    elif isinstance(value, dict):
        yield from _wrong_members(schema, value, path)
    yield from _wrong_choices(schema, value, path)


def _out_of_bounds(schema: dict[str, JSON], value: float, path: Path) -> Iterator[str]:
    low, high = schema.get("minimum"), schema.get("maximum")
    above, below = schema.get("exclusiveMinimum"), schema.get("exclusiveMaximum")
    if low is not None and value < low:
        yield f"{place_words(path)} must be {low} or more"
    if high is not None and value > high:
        yield f"{place_words(path)} must be {high} or less"
    if above is not None and value <= above:
        yield f"{place_words(path)} must be more than {above}"
    if below is not None and value >= below:
        yield f"{place_words(path)} must be less than {below}"


def _wrong_length(
    schema: dict[str, JSON], length: int, word: str, what: str, path: Path
) -> Iterator[str]:
    least, most = schema.get(f"min{word}", 0), schema.get(f"max{word}")
    where = place_words(path)
    if length < least:
        yield f"{where} must have {least:,} {what} or more, found {length:,}"
    if most is not None and length > most:
        yield f"{where} must have {most:,} {what} or fewer, found {length:,}"


def _wrong_members(
    schema: dict[str, JSON], value: dict[str, JSON], path: Path
) -> Iterator[str]:
    known = schema.get("properties", {})
    for name in schema.get("required", ()):
        if name not in value:
            yield f"{place_words((*path, name))} is missing"
    rest = schema.get("additionalProperties", True)
    for name, each in value.items():
        if name in known:
            yield from _problems(known[name], each, (*path, name))
        elif isinstance(rest, dict):
            yield from _problems(rest, each, (*path, name))
        elif rest is False:
            hint = did_you_mean(name, known) or "nothing is expected here"
            yield f"{place_words((*path, name))} is not expected; {hint}"


def _wrong_choices(schema: dict[str, JSON], value: JSON, path: Path) -> Iterator[str]:
    for each in schema.get("allOf", ()):
        yield from _problems(each, value, path)
    for word in ("anyOf", "oneOf"):
        if word not in schema:
            continue
        found = [next(_problems(each, value, path), None) for each in schema[word]]
        fitting = found.count(None)
        if fitting == 0:
            reasons = "; or ".join(each for each in found if each is not None)
            yield f"{place_words(path)} fits none of {len(found)} schemas: {reasons}"
        elif fitting > 1 and word == "oneOf":
            yield f"{place_words(path)} fits {fitting} schemas of which one must fit"


def _is_same(left: JSON, right: JSON) -> bool:
    """Equal as JSON: true is not 1, and 1.0 is."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if isinstance(left, list) and isinstance(right, list):
        pairs = zip(left, right, strict=False)
        return len(left) == len(right) and all(_is_same(*pair) for pair in pairs)
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(
            _is_same(value, right[name]) for name, value in left.items()
        )
    return bool(left == right)


def _shown(value: JSON) -> str:
    if isinstance(value, str):
        return f"'{shorten(value, 40)}'"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return shorten(str(value), 40)


def _listed(values: list[JSON]) -> str:
    shown = ", ".join(_shown(each) for each in values[:12])
    return shown if len(values) <= 12 else f"{shown}, …"
