"""Excerpts of examples on pages: ``yaml`` blocks that begin with the path of a file.

A line ``# …`` stands for lines that were left out. All other lines stand in the file as
on the page, in this order, but for their indentation as a whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from textwrap import dedent
from typing import NamedTuple

BLOCK = re.compile(
    r"^```yaml\n# (?P<path>examples/[\w./]+\.yaml)\n(?P<body>.*?)^```$", re.M | re.S
)
GAP = re.compile(r"^ *# …\n", re.M)


class Excerpt(NamedTuple):
    path: str
    parts: list[str]


def excerpts_of(page: str) -> Iterator[Excerpt]:
    for block in BLOCK.finditer(page):
        yield Excerpt(block["path"], GAP.split(block["body"]))


def missing_part(excerpt: Excerpt, text: str) -> str | None:
    """The first part that the file does not have at this place."""
    lines = text.splitlines()
    start = 0
    for part in excerpt.parts:
        wanted = dedent(part).splitlines()
        for index in range(start, len(lines) - len(wanted) + 1):
            found = "\n".join(lines[index : index + len(wanted)])
            if dedent(found).splitlines() == wanted:
                start = index + len(wanted)
                break
        else:
            return part
    return None
