"""Rows for people: columns as wide as they need, cut where they are too wide."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Sequence

from noetl.dsl.node import printable
from noetl.types import JSON

WIDEST = 60
NARROWEST = 8
_GAP = "  "


def tabulate(columns: Sequence[str], rows: Sequence[Sequence[JSON]]) -> list[str]:
    """The lines of a table; numbers stand at the right."""
    cells = [[_cell(value) for value in row] for row in rows]
    titles = [printable(name) for name in columns]
    widths = [
        min(WIDEST, max(map(len, (title, *(row[at] for row in cells)))))
        for at, title in enumerate(titles)
    ]
    widths = _fitted(widths)
    right = [
        bool(rows) and all(_is_number(row[at]) for row in rows)
        for at in range(len(titles))
    ]

    def line(parts: Sequence[str]) -> str:
        fitted = (
            part.rjust(width) if is_right else _cut(part, width).ljust(width)
            for part, width, is_right in zip(parts, widths, right, strict=True)
        )
        return _GAP.join(fitted).rstrip()

    rule = _GAP.join("─" * width for width in widths)
    return [line(titles), rule, *map(line, cells)]


def plain_text(value: JSON) -> str:
    """A value as one text: texts as they are, nothing for null, else JSON."""
    if value is None:
        return ""
    if isinstance(value, str):
        return value
    return json.dumps(value, ensure_ascii=False)


def _cell(value: JSON) -> str:
    words = plain_text(value)
    return printable(_cut(" ".join(words.split()), WIDEST))


def _is_number(value: JSON) -> bool:
    return value is None or (isinstance(value, int | float) and value is not True)


def _fitted(widths: list[int]) -> list[int]:
    """Narrower, the widest first, until a terminal has room for all of them."""
    if not sys.stdout.isatty():
        return widths
    room = shutil.get_terminal_size().columns - len(_GAP) * (len(widths) - 1)
    fitted = list(widths)
    while sum(fitted) > room and max(fitted) > NARROWEST:
        fitted[fitted.index(max(fitted))] -= 1
    return fitted


def _cut(words: str, width: int) -> str:
    return words if len(words) <= width else words[: width - 1] + "…"
