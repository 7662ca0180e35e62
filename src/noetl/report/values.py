"""Values of the log as readable JSON, each cut at a limit."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

import msgspec

from noetl.engine.values.references import is_reference
from noetl.types import JSON

MAX_DEPTH = 24
SHORT = 88
_HINTS = {"mapping": "a mapping", "list": "a list", "text": "a text"}


class Budget:
    """Characters of values that a page may hold in all."""

    def __init__(self, total: int) -> None:
        self._left = total

    def take(self, wanted: int) -> int:
        granted = min(wanted, self._left)
        self._left -= granted
        return granted


class Shown(msgspec.Struct):
    """Block of JSON: words with the role of each.

    ``cut`` is the shown part if it is not all; ``command`` prints all.
    """

    parts: list[tuple[str, str]]
    cut: str
    command: str


class _Full(Exception):
    """Signal that the limit is reached."""


class _Writer:
    def __init__(self, limit: int) -> None:
        self.parts: list[tuple[str, str]] = []
        self._left = limit

    def put(self, words: str, role: str = "") -> None:
        cut = words[: self._left]
        self.parts.append((cut, role))
        self._left -= len(cut)
        if len(cut) < len(words) or not self._left:
            raise _Full

    def write(self, value: JSON, indent: int = 0) -> None:
        if is_reference(value):
            self.put(reference_words(value), "v-ref")
        elif isinstance(value, dict | list) and value:
            if indent > MAX_DEPTH:
                self.put("…", "v-cut")
                return
            self._write_members(value, indent)
        else:
            self.put(*_scalar(value))

    def _write_members(self, value: JSON, indent: int) -> None:
        opening, closing = "{}" if isinstance(value, dict) else "[]"
        self.put(opening)
        for number, (key, member) in enumerate(_members(value)):
            self.put(("," if number else "") + "\n" + "  " * (indent + 1))
            if key is not None:
                self.put(json.dumps(key, ensure_ascii=False), "v-key")
                self.put(": ")
            self.write(member, indent + 1)
        self.put("\n" + "  " * indent + closing)


def _members(value: JSON) -> Iterator[tuple[str | None, JSON]]:
    if isinstance(value, dict):
        yield from value.items()
    else:
        yield from ((None, member) for member in value)


def _scalar(value: JSON) -> tuple[str, str]:
    match value:
        case str():
            return json.dumps(value, ensure_ascii=False), "v-text"
        case bool() | None:
            return json.dumps(value), "v-word"
        case _:
            return json.dumps(value), "v-number" if value not in ({}, []) else ""


def reference_words(reference: dict[str, JSON]) -> str:
    """Describe a reference: ``(a list of 1.4 MiB, stored apart as 3f9ac2…)``."""
    what = _HINTS.get(str(reference.get("schema_hint")), "a value")
    size = size_words(reference.get("size"))
    key = str(reference.get("key"))[:16]
    return f"({what} of {size}, stored apart as {key}…)"


def size_words(size: JSON) -> str:
    if not isinstance(size, int) or size < 1024:
        return f"{size} bytes"
    if size < 1024**2:
        return f"{size / 1024:,.1f} KiB"
    return f"{size / 1024**2:,.1f} MiB"


def show_value(value: JSON, budget: Budget, limit: int, command: str) -> Shown:
    """Return a block of JSON. ``command`` prints the whole value."""
    granted = budget.take(limit)
    writer = _Writer(granted)
    cut = ""
    try:
        if not granted:
            raise _Full
        writer.write(value)
    except _Full:
        cut = f"The first {granted:,} characters are shown" if granted else "Not shown"
    return Shown(writer.parts, cut, command)


def inline(value: JSON, limit: int = SHORT) -> str:
    """Return one line of JSON for a sentence, cut with an ellipsis."""
    if is_reference(value):
        return reference_words(value)
    words = json.dumps(_without_references(value), ensure_ascii=False)
    return words if len(words) <= limit else words[: limit - 1] + "…"


def _without_references(value: JSON) -> JSON:
    if is_reference(value):
        return reference_words(value)
    if isinstance(value, dict):
        return {key: _without_references(part) for key, part in value.items()}
    if isinstance(value, list):
        return [_without_references(part) for part in value]
    return value


CUT_BYTES = 4_096
"""Bytes of a value as JSON; a larger one is cut."""
CUT_CHARS = 512
"""Characters of a cut value."""


def cut(value: JSON, most: int = CUT_BYTES) -> JSON:
    """Return a value, or the size and the first characters of a large one."""
    if value is None or isinstance(value, bool | int | float):
        return value
    body = msgspec.json.encode(value)
    if len(body) <= most:
        return value
    head = body[: CUT_CHARS * 4].decode("utf-8", "ignore")[:CUT_CHARS]
    return {"$cut": len(body), "head": head}


def cut_members(values: Mapping[str, JSON], most: int = CUT_BYTES) -> dict[str, JSON]:
    """Return a mapping with each of its values cut."""
    return {name: cut(value, most) for name, value in values.items()}
