"""Markdown from rows."""

from __future__ import annotations

from collections.abc import Iterable


def table(head: str, rows: Iterable[Iterable[object]]) -> str:
    """Return a Markdown table; `head` is its first line, cells may hold pipes and
    lines.
    """
    lines = [head, "|---" * (head.count("|") - 1) + "|"]
    for row in rows:
        cells = (" ".join(str(cell).replace("|", "\\|").split()) for cell in row)
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)
