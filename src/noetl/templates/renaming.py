"""Templates as text: which names they read, and other names in their place.

Only names at the root of an access are touched: no attribute, filter, test, keyword
argument or text between the delimiters, and nothing that the template itself assigns.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

Attributes = tuple[str, ...]
Resolve = Callable[[str, Attributes], tuple[str, int] | None]
"""A name and the keys read from it, to an expression and how many of the keys it
stands for; None leaves the name alone."""

_WORDS = frozenset(
    [
        "and",
        "or",
        "not",
        "in",
        "is",
        "if",
        "else",
        "elif",
        "for",
        "set",
        "true",
        "false",
        "none",
        "True",
        "False",
        "None",
        "recursive",
        "loop",
        "endfor",
        "endif",
        "endset",
        "raw",
        "endraw",
    ]
)
_EMPTY = frozenset({"whitespace", "comment", "comment_begin", "comment_end"})


class _Token(NamedTuple):
    kind: str
    text: str
    start: int

    def is_sign(self, *signs: str) -> bool:
        return self.kind == "operator" and self.text in signs


_END = _Token("end", "", 0)


class Name(NamedTuple):
    """A name that is read, the constant keys after it, and where each of them ends."""

    text: str
    attributes: Attributes
    start: int
    ends: tuple[int, ...]


def rename(source: str, resolve: Resolve) -> str:
    """The template with other names; one that cannot be read is left as it is."""
    parts: list[str] = []
    position = 0
    for name in names_in(source):
        found = resolve(name.text, name.attributes)
        if found is not None:
            expression, taken = found
            parts += [source[position : name.start], expression]
            position = name.ends[taken]
    return "".join([*parts, source[position:]])


def names_in(source: str) -> Iterator[Name]:
    """Every name that the template reads from its scope, in order."""
    tokens = _tokens(source)
    assigned = set(_assigned(tokens))
    for place, token in enumerate(tokens):
        if token.kind != "name" or token.text in _WORDS or token.text in assigned:
            continue
        before = tokens[place - 1]
        if before.kind == "block_begin" or before.is_sign(".", "|"):
            continue
        if before.text == "is" or (
            before.text == "not" and tokens[place - 2].text == "is"
        ):
            continue
        if tokens[place + 1].is_sign("="):
            continue
        yield _with_attributes(tokens, place)


def _with_attributes(tokens: list[_Token], place: int) -> Name:
    name = tokens[place]
    attributes: list[str] = []
    ends = [name.start + len(name.text)]
    place += 1
    while True:
        sign, key = tokens[place], tokens[place + 1]
        if sign.is_sign(".") and key.kind == "name":
            attributes.append(key.text)
            place += 2
        elif (
            sign.is_sign("[")
            and key.kind == "string"
            and "\\" not in key.text
            and tokens[place + 2].is_sign("]")
        ):
            attributes.append(key.text[1:-1])
            key = tokens[place + 2]
            place += 3
        else:
            return Name(name.text, tuple(attributes), name.start, tuple(ends))
        ends.append(key.start + len(key.text))


def _assigned(tokens: list[_Token]) -> Iterator[str]:
    """Names after ``{% set`` and ``{% for``."""
    for place, token in enumerate(tokens):
        if token.kind != "block_begin":
            continue
        tag = tokens[place + 1].text
        if tag not in ("set", "for"):
            continue
        for other in tokens[place + 2 :]:
            if other.text == "in" or other.is_sign("=") or other.kind == "block_end":
                break
            if other.kind == "name":
                yield other.text


def _tokens(source: str) -> list[_Token]:
    """The tokens with their places, and some that end every look ahead."""
    from jinja2 import TemplateSyntaxError

    from noetl.templates.parser import lexer

    tokens: list[_Token] = []
    position = 0
    try:
        for _, kind, text in lexer().tokeniter(source, None):
            while not source.startswith(text, position):
                if not source[position : position + 1].isspace():
                    return []  # line ends are written in another way: leave it alone
                position += 1
            if kind not in _EMPTY:
                tokens.append(_Token(kind, text, position))
            position += len(text)
    except TemplateSyntaxError:
        return []  # whoever compiles it says so
    return [*tokens, _END, _END, _END]
