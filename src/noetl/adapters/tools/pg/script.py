"""A script: its statements, and the placeholders of each."""

from __future__ import annotations

import msgspec

from noetl.adapters.tools.pg.tokens import Token, scan

_OPENING = {"(": 1, ")": -1}
_OPERANDS = frozenset({"word", "quoted", "string", "number", "param", "named"})
_ROUTINES = frozenset({"FUNCTION", "PROCEDURE"})
_MAIN = frozenset({"SELECT", "INSERT", "UPDATE", "DELETE", "MERGE", "VALUES", "TABLE"})


class Placeholder(msgspec.Struct, frozen=True):
    """``$1`` has the key 1, ``:name`` the key ``name``; offsets of the statement."""

    key: int | str
    start: int
    end: int


class Statement(msgspec.Struct, frozen=True):
    """``words`` are the unquoted ones outside parentheses, in upper case."""

    number: int
    text: str
    line: int
    words: tuple[str, ...]
    placeholders: tuple[Placeholder, ...] = ()

    @property
    def verb(self) -> str:
        """What it does; of ``WITH … INSERT`` that is the INSERT."""
        first = self.words[0] if self.words else ""
        if first != "WITH":
            return first
        return next((word for word in self.words if word in _MAIN), first)


def split(sql: str) -> list[Statement]:
    """The statements, without those that hold nothing but comments."""
    found: list[Statement] = []
    lines = _Lines(sql)
    part = _Part()
    for token in scan(sql):
        if token.text == ";" and part.is_outside():
            part.close(found, lines)
            part = _Part()
        else:
            part.add(token)
    part.close(found, lines)
    return found


class _Lines:
    """Line numbers of offsets that only grow: each character is counted once."""

    def __init__(self, sql: str) -> None:
        self.sql = sql
        self._line, self._at = 1, 0

    def line_at(self, offset: int) -> int:
        self._line += self.sql.count("\n", self._at, offset)
        self._at = offset
        return self._line


class _Part:
    """A statement while it is read."""

    def __init__(self) -> None:
        self._tokens: list[Token] = []
        self._words: list[str] = []
        self._placeholders: list[Placeholder] = []
        self._depth = 0
        self._bodies = 0  # BEGIN ATOMIC … END of a function: it holds semicolons
        self._brackets = 0

    def is_outside(self) -> bool:
        return self._depth <= 0 and self._bodies == 0

    def add(self, token: Token) -> None:
        if token.kind == "other":
            self._depth += _OPENING.get(token.text, 0)
            self._brackets += {"[": 1, "]": -1}.get(token.text, 0)
        elif token.kind == "word" and self._depth <= 0:
            self._add_word(token.text.upper())
        elif token.kind == "param":
            # No list has as many values as a longer number asks for.
            self._add_placeholder(int(token.text[1:][:18]), token)
        elif token.kind == "named" and not self._is_slice():
            self._add_placeholder(token.text[1:], token)
        self._tokens.append(token)

    def _add_word(self, word: str) -> None:
        self._words.append(word)
        begins = word == "BEGIN" and self._makes_routine()
        if begins or (word == "CASE" and self._bodies):
            self._bodies += 1
        elif word == "END" and self._bodies:
            self._bodies -= 1

    def _makes_routine(self) -> bool:
        words = [word for word in self._words[:4] if word not in ("OR", "REPLACE")]
        return words[:1] == ["CREATE"] and bool(_ROUTINES & set(words[1:2]))

    def _is_slice(self) -> bool:
        """The colon of ``a[1:n]`` follows what it begins with."""
        if self._brackets <= 0 or not self._tokens:
            return False
        before = self._tokens[-1]
        return before.kind in _OPERANDS or before.text in (")", "]")

    def _add_placeholder(self, key: int | str, token: Token) -> None:
        start = self._tokens[0].start if self._tokens else token.start
        placed = Placeholder(key, token.start - start, token.end - start)
        self._placeholders.append(placed)

    def close(self, found: list[Statement], lines: _Lines) -> None:
        if not self._tokens:
            return
        start, end = self._tokens[0].start, self._tokens[-1].end
        found.append(
            Statement(
                number=len(found) + 1,
                text=lines.sql[start:end],
                line=lines.line_at(start),
                words=tuple(self._words),
                placeholders=tuple(self._placeholders),
            )
        )
