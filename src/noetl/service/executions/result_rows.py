"""Rows of stored results: a page of a table of any size, within fixed limits."""

from __future__ import annotations

import csv
import io
import json
import re
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from threading import Lock
from typing import IO

import msgspec

from noetl.service.errors import RequestRefused
from noetl.types import JSON

MAX_ROWS = 200
MAX_COLUMNS = 64
MAX_CELL_BYTES = 1024
MAX_ROW_BYTES = 256 << 10
"""Bytes of one row that are read; the rest of it is left out."""
MAX_SCAN_BYTES = 256 << 20
"""Bytes that one call looks through for the beginnings of rows."""
QUOTE_COST = 8
"""Bytes that are passed over in the time of a quote."""
MAX_LIST_BYTES = 16 << 20
"""Bytes of a list in JSON, which is read as a whole."""
PART = 1 << 20
KEPT = 64
"""Files whose marks are remembered."""
_HEAD = 256
_LINE = re.compile(rb"[^\n]*+\n")
_QUOTED_LINE = re.compile(rb'(?:[^"\n]++|"[^"]*+")*+\n')
"""A row from its beginning to its end, which is not within quotes."""
_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[\]{},]', re.DOTALL)
"""What separates the elements of a list in JSON, and the texts in which it does not."""


class RowPage(msgspec.Struct):
    """Rows from ``offset`` on.

    ``total`` is None until the end of the file was seen; ``complete`` is False if
    another call must continue the search for the first row.
    """

    columns: list[str]
    rows: list[list[JSON]]
    total: int | None
    offset: int
    complete: bool = True


class Mark(msgspec.Struct, frozen=True):
    """A place in a file: the line ends before it, and whether it is within quotes."""

    place: int
    ends: int
    quoted: bool


class Lines:
    """Where the lines of a file begin: a mark each ``PART`` bytes, as far as was read.

    A line end within quotes does not end a row of CSV.
    """

    def __init__(self, *, quotes: bool) -> None:
        self.quotes = quotes
        self._next_row = _QUOTED_LINE.match if quotes else _LINE.match
        self._marks = [Mark(0, 0, False)]
        self._ends_at_last = True
        self._lock = Lock()
        self.total: int | None = None

    def reach(self, file: IO[bytes], line: int) -> bool:
        """Read on until the beginning of a line is known, or the end of the file;
        return False if that takes further calls."""
        left = MAX_SCAN_BYTES
        with self._lock:
            while self.total is None and self._marks[-1].ends < line:
                if left <= 0:
                    return False
                left -= self._read_part(file)
        return True

    def _read_part(self, file: IO[bytes]) -> int:
        """Read the next part; return its bytes, and more for each of its quotes."""
        last = self._marks[-1]
        file.seek(last.place)
        part = file.read(PART)
        ends, quoted = self._count(part, last.quoted)
        if part:
            self._ends_at_last = part.endswith(b"\n") and not quoted
        if len(part) < PART:
            self.total = last.ends + ends + (not self._ends_at_last)
        self._marks.append(Mark(last.place + len(part), last.ends + ends, quoted))
        return len(part) + QUOTE_COST * part.count(b'"')

    def _count(self, part: bytes, quoted: bool) -> tuple[int, bool]:
        if not self.quotes or b'"' not in part:
            return (0 if quoted else part.count(b"\n")), quoted
        pieces = part.split(b'"')
        outside = pieces[quoted::2]
        ends = sum(piece.count(b"\n") for piece in outside)
        return ends, quoted ^ (len(pieces) % 2 == 0)

    def place_of(self, file: IO[bytes], line: int) -> int | None:
        """Return where a line begins that was reached; None after the last one."""
        if line == 0:
            return 0
        if self.total is not None and line >= self.total:
            return None
        before = max(
            (mark for mark in self._marks if mark.ends < line), key=lambda m: m.place
        )
        file.seek(before.place)
        part, left = file.read(PART), line - before.ends
        at = part.find(b'"') + 1 if before.quoted else 0
        while found := self._next_row(part, at):
            left, at = left - 1, found.end()
            if not left:
                return before.place + at
        return None

    def row_at(
        self, file: IO[bytes], place: int, line: int
    ) -> tuple[bytes, int | None]:
        """Return the row that begins there, cut to ``MAX_ROW_BYTES``, and where the
        next one begins."""
        file.seek(place)
        text = file.read(MAX_ROW_BYTES)
        if found := self._next_row(text):
            return found[0], place + found.end()
        if len(text) < MAX_ROW_BYTES:
            return text, None
        return text, self.place_of(file, line + 1)


class ResultRows:
    """Reads pages of rows; remembers where the lines of files begin. Its calls take
    time: they are made on threads."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[str, bool], Lines] = OrderedDict()
        self._lock = Lock()

    def of_file(
        self, key: str, path: str, hint: str, offset: int, limit: int
    ) -> RowPage:
        """Return rows of a file of CSV or of JSON lines."""
        with open(path, "rb") as file:
            if hint == "csv":
                return self._of_csv(key, file, offset, limit)
            lines = self._lines(key, quotes=False)
            complete = lines.reach(file, offset + limit)
            found = _read(file, lines, offset, limit if complete else 0)
            page = _table(map(_cells, found), offset)
        page.total, page.complete = lines.total, complete
        return page

    def _of_csv(self, key: str, file: IO[bytes], offset: int, limit: int) -> RowPage:
        lines = self._lines(key, quotes=True)
        complete = lines.reach(file, offset + 1 + limit)
        header = next(_parse_csv(_read(file, lines, 0, 1)), [])
        rows = _parse_csv(_read(file, lines, offset + 1, limit if complete else 0))
        cells = [[_cell(each) for each in row[:MAX_COLUMNS]] for row in rows]
        total = None if lines.total is None else max(lines.total - 1, 0)
        columns = [name[:_HEAD] for name in header[:MAX_COLUMNS]]
        return RowPage(columns, cells, total, offset, complete)

    def _lines(self, key: str, *, quotes: bool) -> Lines:
        """Return what is known of a file: the same bytes may be of both kinds."""
        with self._lock:
            found = self._known.setdefault((key, quotes), Lines(quotes=quotes))
            self._known.move_to_end((key, quotes))
            if len(self._known) > KEPT:
                self._known.popitem(last=False)
        return found


def rows_of_list(text: bytes, offset: int, limit: int) -> RowPage:
    """Return rows of a list in JSON. Raises ``RequestRefused`` (``ref.rows``)."""
    check_list_size(len(text))
    if not text.lstrip().startswith(b"["):
        raise no_rows("the result is not a list")
    try:
        msgspec.json.decode(text, type=msgspec.Raw)
    except (msgspec.MsgspecError, RecursionError):
        raise no_rows("the result is not a list") from None
    total, shown = 0, []
    for total, element in enumerate(_elements(text), 1):
        if offset < total <= offset + limit:
            shown.append(_cells(element))
    page = _table(shown, offset)
    page.total = total
    return page


def check_list_size(size: int) -> None:
    """Raise ``RequestRefused`` (``ref.rows``) for a list that is too large."""
    if size > MAX_LIST_BYTES:
        raise no_rows(f"a list of {size:,} bytes is too large to show as rows")


def _elements(text: bytes) -> Iterator[bytes]:
    """Yield the elements of a list in JSON, each cut to ``MAX_ROW_BYTES``: decoded at
    once, a list may take forty times the memory of its text."""
    depth = start = end = 0
    for token in _TOKEN.finditer(text):
        end = token.start()
        match text[end]:
            case 0x5B | 0x7B:  # [ {
                depth += 1
                if depth == 1:
                    start = end + 1
            case 0x5D | 0x7D:  # ] }
                depth -= 1
            case 0x2C if depth == 1:  # ,
                yield text[start : min(end, start + MAX_ROW_BYTES)]
                start = end + 1
    if text[start:end].strip():
        yield text[start : min(end, start + MAX_ROW_BYTES)]


def no_rows(message: str) -> RequestRefused:
    hint = "GET /api/results/{ref} returns the whole value, or a range of its bytes"
    return RequestRefused("ref.rows", message, hint)


def _read(file: IO[bytes], lines: Lines, line: int, limit: int) -> Iterator[bytes]:
    """Yield rows, each cut to ``MAX_ROW_BYTES``."""
    place = lines.place_of(file, line)
    for number in range(line, line + limit):
        if place is None:
            return
        row, place = lines.row_at(file, place, number)
        if row:
            yield row


def _parse_csv(rows: Iterable[bytes]) -> Iterator[list[str]]:
    for row in rows:
        text = row.decode("utf-8", "replace")
        try:
            yield next(csv.reader(io.StringIO(text, newline="")), [])
        except csv.Error:
            yield [text]


def _cells(text: bytes) -> dict[str, JSON]:
    """Return the cells of a row in JSON by their columns; of other text, one cell."""
    try:
        value = msgspec.json.decode(text)
        return {name: _cell(_part(value, name)) for name in _names(value)}
    except (msgspec.MsgspecError, RecursionError):
        return {"value": _cell(text.decode("utf-8", "replace").rstrip("\n"))}


def _table(rows: Iterable[dict[str, JSON]], offset: int) -> RowPage:
    """Return rows as a table: its columns are the first ones that rows have."""
    columns: dict[str, None] = {}
    kept = []
    for row in rows:
        kept.append(row)
        if len(columns) < MAX_COLUMNS:
            columns |= dict.fromkeys(row)
    names = [*columns][:MAX_COLUMNS]
    cells = [[row.get(name) for name in names] for row in kept]
    return RowPage([name[:_HEAD] for name in names], cells, None, offset)


def _names(value: JSON) -> Iterable[str]:
    if isinstance(value, dict):
        return list(value)[:MAX_COLUMNS]
    if isinstance(value, list):
        return [str(number) for number in range(min(len(value), MAX_COLUMNS))]
    return ["value"]


def _part(value: JSON, name: str) -> JSON:
    if isinstance(value, dict):
        return value[name]
    return value[int(name)] if isinstance(value, list) else value


def _cell(value: JSON) -> JSON:
    """Return the value, or its size and beginning if it is too large for a cell."""
    if value is None or isinstance(value, bool | int | float):
        return value
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    size = len(text.encode(errors="replace"))
    if size <= MAX_CELL_BYTES:
        return value
    return {"$cut": size, "head": text[:_HEAD]}
