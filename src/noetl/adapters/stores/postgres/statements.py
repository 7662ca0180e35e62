"""``commit.sql``, with the parts that a group needs and no others."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

_TEXT = (files(__package__) / "sql" / "commit.sql").read_text(encoding="utf-8")
_PART = re.compile(r"^-- part: (\w+)\n", re.MULTILINE)
_PLACE = re.compile(r"\$(\d+)")


def statement(
    parts: Collection[str], arguments: Sequence[Any]
) -> tuple[str, Sequence[Any]]:
    """The statement, and those of the arguments that are left in it."""
    text, places = _assemble(frozenset(parts))
    return text, [arguments[place - 1] for place in places]


@cache
def _assemble(parts: frozenset[str]) -> tuple[str, list[int]]:
    """A part that is left out takes its parameters along: the rest is numbered anew."""
    first, *marked = _PART.split(_TEXT)
    texts = [first]
    for name, text in zip(marked[::2], marked[1::2], strict=True):
        if name == "all" or name in parts:
            texts.append(text)
    text = "".join(texts)
    places = sorted({int(place) for place in _PLACE.findall(text)})
    number = {place: str(index) for index, place in enumerate(places, 1)}
    return _PLACE.sub(lambda found: "$" + number[int(found[1])], text), places
