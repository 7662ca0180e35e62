"""Rows of stored results: a page of a table of any size, within fixed limits."""

from __future__ import annotations

import csv
import io
import json
import re
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Sequence
from threading import Lock
from typing import IO

import msgspec

from noetl.service.errors import RequestRefused
from noetl.types import JSON

MAX_ROWS = 200
MAX_COLUMNS = 64
MAX_CELL_BYTES = 1024
MAX_ROW_BYTES = 1 << 20
"""Bytes of one row that are read; the rest of it is left out."""
MAX_SCAN_BYTES = 256 << 20
"""Bytes that one call looks through for the beginning of a row."""
MAX_LIST_BYTES = 16 << 20
"""Bytes of a list in JSON, which is read as a whole."""
PART = 1 << 20
KEPT = 64
"""Files whose marks are remembered."""
_HEAD = 256
_END, _ENDS = re.compile(rb"\n"), re.compile(rb'["\n]')


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
                self._read_part(file)
                left -= PART
        return True

    def _read_part(self, file: IO[bytes]) -> None:
        last = self._marks[-1]
        file.seek(last.place)
        part = file.read(PART)
        ends, quoted = self._count(part, last.quoted)
        if part:
            self._ends_at_last = part.endswith(b"\n") and not quoted
        if len(part) < PART:
            self.total = last.ends + ends + (not self._ends_at_last)
        self._marks.append(Mark(last.place + len(part), last.ends + ends, quoted))

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
        part, left, quoted = file.read(PART), line - before.ends, before.quoted
        for found in (_ENDS if self.quotes else _END).finditer(part):
            if found[0] == b'"':
                quoted = not quoted
            elif not quoted:
                left -= 1
                if not left:
                    return before.place + found.end()
        return None


class ResultRows:
    """Reads pages of rows; remembers where the lines of files begin. Its calls take
    time: they are made on a thread."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Lines] = OrderedDict()

    def of_file(
        self, key: str, path: str, hint: str, offset: int, limit: int
    ) -> RowPage:
        """Return rows of a file of CSV or of JSON lines."""
        with open(path, "rb") as file:
            if hint == "csv":
                return self._of_csv(key, file, offset, limit)
            lines = self._lines(key, quotes=False)
            complete = lines.reach(file, offset + 1)
            limit = limit if complete else 0
            found = [_decode(line) for line in _read(file, lines, offset, limit)]
        return _table(found, lines.total, offset, complete)

    def _of_csv(self, key: str, file: IO[bytes], offset: int, limit: int) -> RowPage:
        lines = self._lines(key, quotes=True)
        complete = lines.reach(file, offset + 2)
        header = next(_parse_csv(_read(file, lines, 0, 1)), [])
        rows = _parse_csv(_read(file, lines, offset + 1, limit if complete else 0))
        cells = [[_cell(each) for each in row[:MAX_COLUMNS]] for row in rows]
        total = None if lines.total is None else max(lines.total - 1, 0)
        columns = [name[:_HEAD] for name in header[:MAX_COLUMNS]]
        return RowPage(columns, cells, total, offset, complete)

    def _lines(self, key: str, *, quotes: bool) -> Lines:
        found = self._known.setdefault(key, Lines(quotes=quotes))
        self._known.move_to_end(key)
        if len(self._known) > KEPT:
            self._known.popitem(last=False)
        return found


def rows_of_list(text: bytes, offset: int, limit: int) -> RowPage:
    """Return rows of a list in JSON. Raises ``RequestRefused`` (``ref.rows``)."""
    if len(text) > MAX_LIST_BYTES:
        message = f"a list of {len(text):,} bytes is too large to show as rows"
        raise no_rows(message)
    try:
        values = msgspec.json.decode(text, type=list[msgspec.Raw])
    except msgspec.MsgspecError:
        raise no_rows("the result is not a list") from None
    shown = [_decode(bytes(each)) for each in values[offset : offset + limit]]
    return _table(shown, len(values), offset, True)


def no_rows(message: str) -> RequestRefused:
    hint = "GET /api/results/{ref} returns the whole value, or a range of its bytes"
    return RequestRefused("ref.rows", message, hint)


def _read(file: IO[bytes], lines: Lines, line: int, limit: int) -> Iterator[bytes]:
    """Yield lines, each cut to ``MAX_ROW_BYTES``."""
    place = lines.place_of(file, line)
    if place is None:
        return
    file.seek(place)
    for _ in range(limit):
        row = _whole_row(file) if lines.quotes else file.readline(MAX_ROW_BYTES)
        if not row:
            return
        while not row.endswith(b"\n") and len(row) >= MAX_ROW_BYTES:
            rest = file.readline(MAX_ROW_BYTES)
            if not rest or rest.endswith(b"\n"):
                break
        yield row


def _whole_row(file: IO[bytes]) -> bytes:
    """Read lines until the quotes of a row of CSV are closed."""
    row = file.readline(MAX_ROW_BYTES)
    while row.count(b'"') % 2 and len(row) < MAX_ROW_BYTES:
        more = file.readline(MAX_ROW_BYTES)
        if not more:
            break
        row += more
    return row


def _parse_csv(rows: Iterable[bytes]) -> Iterator[list[str]]:
    for row in rows:
        text = row.decode("utf-8", "replace")
        try:
            yield next(csv.reader(io.StringIO(text, newline="")), [])
        except csv.Error:
            yield [text]


def _decode(text: bytes) -> JSON:
    try:
        return msgspec.json.decode(text)
    except msgspec.MsgspecError:
        return text.decode("utf-8", "replace").rstrip("\n")


def _table(
    values: Sequence[JSON], total: int | None, offset: int, complete: bool
) -> RowPage:
    """Return objects and lists as rows; other values in one column."""
    columns: dict[str, None] = {}
    for value in values:
        if len(columns) < MAX_COLUMNS:
            columns |= dict.fromkeys(_names(value))
    names = [*columns][:MAX_COLUMNS]
    rows = [[_cell(_part(value, name)) for name in names] for value in values]
    shown = [name[:_HEAD] for name in names]
    return RowPage(shown, rows, total, offset, complete)


def _names(value: JSON) -> Iterable[str]:
    if isinstance(value, dict):
        return list(value)[:MAX_COLUMNS]
    if isinstance(value, list):
        return [str(number) for number in range(min(len(value), MAX_COLUMNS))]
    return ["value"]


def _part(value: JSON, name: str) -> JSON:
    if isinstance(value, dict):
        return value.get(name)
    if isinstance(value, list):
        at = int(name) if name.isdigit() else len(value)
        return value[at] if at < len(value) else None
    return value if name == "value" else None


def _cell(value: JSON) -> JSON:
    """Return the value, or its size and beginning if it is too large for a cell."""
    if value is None or isinstance(value, bool | int | float):
        return value
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    size = len(text.encode(errors="replace"))
    if size <= MAX_CELL_BYTES:
        return value
    return {"$cut": size, "head": text[:_HEAD]}
