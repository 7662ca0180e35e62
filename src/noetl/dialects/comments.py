"""The comments of a YAML text: what lies between its tokens."""

from __future__ import annotations

import re
from collections.abc import Iterator

import yaml

_COMMENT = re.compile(r"#[^\n]*")


def comments_of(text: str) -> list[tuple[int, str]]:
    """Each comment by its position. Raises ``yaml.YAMLError``."""
    return list(_comments(text))


def _comments(text: str) -> Iterator[tuple[int, str]]:
    reached = 0
    for token in yaml.scan(text, Loader=yaml.SafeLoader):
        start, end = token.start_mark.index, token.end_mark.index
        yield from _between(text, reached, start)
        if isinstance(token, yaml.ScalarToken) and token.style in ("|", ">"):
            head = text.find("\n", start)
            yield from _between(text, start, end if head < 0 else head)
        reached = max(reached, end)
    yield from _between(text, reached, len(text))


def _between(text: str, start: int, end: int) -> Iterator[tuple[int, str]]:
    for found in _COMMENT.finditer(text, start, end):
        yield found.start(), found.group().rstrip()
