"""Script of SQL: its statements, their placeholders, and whether they only read."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec

from noetl.types import JSON

# An unclosed quote reaches to the end of the text; the server reports the error.
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
    """``kind`` is word, quoted, string, number, param, named, colons or other."""

    kind: str
    text: str
    start: int
    end: int


def scan(sql: str) -> Iterator[Token]:
    """Yield the tokens in order, without space and comments."""
    at = 0
    while at < len(sql):
        found = _TOKEN.match(sql, at)
        assert found is not None  # the last alternative matches anything
        kind, end = str(found.lastgroup), found.end()
        if kind == "block":
            end, closed = end_of_comment(sql, end)
            kind = "block" if closed else "other"  # the server must see it
        elif kind == "dollar":
            closing = sql.find(found[0], end)
            end = len(sql) if closing < 0 else closing + len(found[0])
        if kind not in _SKIPPED:
            name = "string" if kind in ("escaped", "dollar") else kind
            yield Token(name, sql[at:end], at, end)
        at = end


def end_of_comment(sql: str, at: int) -> tuple[int, bool]:
    """Return the end of a nested comment that began before ``at``.

    The second value is False if the comment is not closed.
    """
    depth = 1
    while depth:
        found = _COMMENT.search(sql, at)
        if found is None:
            return len(sql), False
        depth += 1 if found[0] == "/*" else -1
        at = found.end()
    return at, True


_OPENING = {"(": 1, ")": -1}
_OPERANDS = frozenset({"word", "quoted", "string", "number", "param", "named"})
_ROUTINES = frozenset({"FUNCTION", "PROCEDURE"})
_MAIN = frozenset({"SELECT", "INSERT", "UPDATE", "DELETE", "MERGE", "VALUES", "TABLE"})


class Placeholder(msgspec.Struct, frozen=True):
    """``$1`` has the key 1, ``:name`` the key ``name``; offsets in the statement."""

    key: int | str
    start: int
    end: int


class Statement(msgspec.Struct, frozen=True):
    """Statement; ``words`` are those outside quotes and parentheses, in upper case."""

    number: int
    text: str
    line: int
    words: tuple[str, ...]
    placeholders: tuple[Placeholder, ...] = ()

    @property
    def verb(self) -> str:
        """Main keyword, such as INSERT of ``WITH … INSERT``."""
        first = self.words[0] if self.words else ""
        if first != "WITH":
            return first
        return next((word for word in self.words if word in _MAIN), first)


def split(sql: str) -> list[Statement]:
    """Split a script into statements, without those that are only comments."""
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
    """Line numbers of ascending offsets; each character is counted once."""

    def __init__(self, sql: str) -> None:
        self.sql = sql
        self._line, self._at = 1, 0

    def line_at(self, offset: int) -> int:
        self._line += self.sql.count("\n", self._at, offset)
        self._at = offset
        return self._line


class _Part:
    """Statement that is being read."""

    def __init__(self) -> None:
        self._tokens: list[Token] = []
        self._words: list[str] = []
        self._placeholders: list[Placeholder] = []
        self._depth = 0
        self._bodies = 0  # BEGIN ATOMIC … END of a function may have semicolons
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
            # 18 digits are more than any list has values.
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
        """Return whether the colon follows an operand in brackets, as in ``a[1:n]``."""
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


def quote_name(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def quote_text(text: str) -> str:
    """Quote a text, independently of ``standard_conforming_strings``."""
    quoted = text.replace("'", "''")
    if "\\" in quoted:
        return " E'" + quoted.replace("\\", "\\\\") + "'"
    return f"'{quoted}'"


def as_text(value: JSON) -> str:
    """Return a text as it is, and any other value as JSON."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def as_array(values: JSON, *, of_json: bool = False) -> str:
    """Return the array literal of a list; nested lists are further dimensions."""
    parts = []
    for value in values:
        if value is None:
            parts.append("NULL")
        elif of_json and not isinstance(value, str):
            parts.append(quote_element(as_text(value)))
        elif isinstance(value, list):
            parts.append(as_array(value))
        else:
            parts.append(quote_element(as_text(value)))
    return "{" + ",".join(parts) + "}"


def quote_element(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_READING = frozenset({"SELECT", "WITH", "VALUES", "TABLE", "SHOW", "EXPLAIN"})
_FRAMES = frozenset({"BEGIN", "START", "COMMIT", "END"})
# Searched in the whole statement, including names: a false positive does no harm.
_WRITING = _words(
    "INSERT UPDATE DELETE MERGE INTO TRUNCATE COPY CALL DO LOCK CREATE ALTER DROP "
    "GRANT REVOKE EXECUTE ANALYZE ANALYSE FOR"
)
# Keywords that may precede a parenthesis without being a function.
_GRAMMAR = _words(
    "ALL AND ANY ARRAY AS BETWEEN BY CASE CUBE DISTINCT ELSE EXCEPT EXISTS FILTER FROM "
    "GROUPING HAVING ILIKE IN INTERSECT INTERVAL IS JOIN LATERAL LIKE LIMIT "
    "MATERIALIZED NOT OFFSET ON OR OVER PARTITION RECURSIVE ROLLUP ROW SELECT SETS "
    "SOME THEN TIME TIMESTAMP UNION USING VALUES WHEN WHERE WITH WITHIN "
    "BIT CHAR CHARACTER DEC DECIMAL FLOAT NUMERIC VARCHAR VARYING EXPLAIN"
)
# Functions of PostgreSQL without side effects. Any other may write.
_PURE = _words(
    "ABS AGE ARRAY_AGG ARRAY_APPEND ARRAY_LENGTH ARRAY_POSITION ARRAY_TO_JSON "
    "ARRAY_TO_STRING ASCII AVG BIT_AND BIT_OR BOOL_AND BOOL_OR BTRIM CAST CEIL CEILING "
    "CHAR_LENGTH CHARACTER_LENGTH CHR COALESCE CONCAT CONCAT_WS COUNT CUME_DIST "
    "DATE_BIN DATE_PART DATE_TRUNC DENSE_RANK EVERY EXP EXTRACT FIRST_VALUE FLOOR "
    "FORMAT GENERATE_SERIES GREATEST HASHTEXT INITCAP JSON_AGG JSON_ARRAY_LENGTH "
    "JSON_BUILD_ARRAY JSON_BUILD_OBJECT JSON_OBJECT_AGG JSONB_AGG JSONB_ARRAY_ELEMENTS "
    "JSONB_ARRAY_ELEMENTS_TEXT JSONB_ARRAY_LENGTH JSONB_BUILD_ARRAY JSONB_BUILD_OBJECT "
    "JSONB_EACH JSONB_EACH_TEXT JSONB_EXTRACT_PATH JSONB_EXTRACT_PATH_TEXT "
    "JSONB_OBJECT_AGG JSONB_OBJECT_KEYS JSONB_TO_RECORDSET JUSTIFY_INTERVAL LAG "
    "LAST_VALUE LEAD LEAST LEFT LENGTH LN LOG LOWER LPAD LTRIM MAKE_DATE MAKE_INTERVAL "
    "MAX MD5 MIN MOD MODE NOW NTH_VALUE NTILE NULLIF OCTET_LENGTH OVERLAY "
    "PERCENT_RANK PERCENTILE_CONT PERCENTILE_DISC PG_SLEEP POSITION POWER RANDOM RANK "
    "REGEXP_MATCH REGEXP_MATCHES REGEXP_REPLACE REPEAT REPLACE REVERSE RIGHT ROUND "
    "ROW_NUMBER ROW_TO_JSON RPAD RTRIM SHA256 SIGN SPLIT_PART SQRT STDDEV STRING_AGG "
    "STRING_TO_ARRAY STRPOS SUBSTR SUBSTRING SUM TO_CHAR TO_DATE TO_JSON TO_JSONB "
    "TO_NUMBER TO_TIMESTAMP TRANSLATE TRIM TRUNC UNNEST UPPER VARIANCE"
)


INSPECTED = 16 * 1024
"""Characters of SQL that are inspected on the event loop, before a call."""


def may_write(sql: str) -> bool:
    """Return whether the start of a call must be recorded before it runs.

    A text longer than ``INSPECTED`` counts as writing.
    """
    return len(sql) > INSPECTED or not is_read_only(sql)


def is_read_only(sql: str) -> bool:
    """Return True only if no statement of the text can have an effect."""
    return only_reads(split(sql))


def only_reads(statements: Sequence[Statement]) -> bool:
    return all(reads(statement) for statement in statements)


def reads(statement: Statement) -> bool:
    first = statement.words[0] if statement.words else ""
    if first in _FRAMES:
        return True
    if first not in _READING:
        return False
    tokens = list(scan(statement.text))
    words = {token.text.upper() for token in tokens if token.kind == "word"}
    return not words & _WRITING and all(name in _PURE for name in calls(tokens))


def calls(tokens: Sequence[Token]) -> Iterator[str]:
    """Yield the called functions; a qualified name is in lower case, so not known."""
    for at in range(1, len(tokens)):
        name = tokens[at - 1]
        if tokens[at].text != "(" or name.kind not in ("word", "quoted"):
            continue
        if at >= 2 and tokens[at - 2].text == ".":
            yield name.text.lower()
        elif name.kind == "quoted" or name.text.upper() not in _GRAMMAR:
            yield name.text.upper()
