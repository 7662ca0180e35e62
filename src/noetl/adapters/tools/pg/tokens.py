"""SQL as PostgreSQL's scanner sees it: quotes, dollar quotes, comments, words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

# A quote that never ends reaches to the end of the text: the server will say so.
_TOKEN = re.compile(
    r"""
    (?P<space>[ \t\n\r\f\v]++)
  | (?P<comment>--[^\n\r]*+)
  | (?P<block>/\*)
  | (?P<escaped>[eE]'[^'\\]*+(?:(?:\\.|'')[^'\\]*+)*+(?:'|\\?\Z))
  | (?P<string>(?:[uU]&|[bBxXnN])?'[^']*+(?:''[^']*+)*+(?:'|\Z))
  | (?P<quoted>(?:[uU]&)?"[^"]*+(?:""[^"]*+)*+(?:"|\Z))
  | (?P<dollar>\$(?:[A-Za-z_\x80-\U0010ffff][A-Za-z0-9_\x80-\U0010ffff]*+)?\$)
  | (?P<param>\$[0-9]++)
  | (?P<word>[A-Za-z_\x80-\U0010ffff][A-Za-z0-9_$\x80-\U0010ffff]*+)
  | (?P<number>\.?[0-9][A-Za-z0-9_.]*+)
  | (?P<colons>::|:=)
  | (?P<named>:[A-Za-z_][A-Za-z0-9_]*+)
  | (?P<other>.)
    """,
    re.VERBOSE | re.DOTALL,
)
_COMMENT = re.compile(r"/\*|\*/")
_SKIPPED = frozenset({"space", "comment", "block"})


class Token(NamedTuple):
    """``kind``: word, quoted, string, number, param, named, colons or other."""

    kind: str
    text: str
    start: int
    end: int


def scan(sql: str) -> Iterator[Token]:
    """The tokens in order, without space and comments."""
    at = 0
    while at < len(sql):
        found = _TOKEN.match(sql, at)
        assert found is not None  # the last alternative matches anything
        kind, end = str(found.lastgroup), found.end()
        if kind == "block":
            end, closed = end_of_comment(sql, end)
            kind = "block" if closed else "other"  # not to be left out unseen
        elif kind == "dollar":
            closing = sql.find(found[0], end)
            end = len(sql) if closing < 0 else closing + len(found[0])
        if kind not in _SKIPPED:
            name = "string" if kind in ("escaped", "dollar") else kind
            yield Token(name, sql[at:end], at, end)
        at = end


def end_of_comment(sql: str, at: int) -> tuple[int, bool]:
    """Where a comment that began before ``at`` ends, and whether it does; they nest."""
    depth = 1
    while depth:
        found = _COMMENT.search(sql, at)
        if found is None:
            return len(sql), False
        depth += 1 if found[0] == "/*" else -1
        at = found.end()
    return at, True
