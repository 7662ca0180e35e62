"""Rows of a result as JSON, read in batches, up to a limit."""

from __future__ import annotations

from typing import Any, BinaryIO

import duckdb
import msgspec

from .errors import Refusal
from .values import Shape

HANDED_OVER = 1024 * 1024
"""Maximum bytes of a result whose rows are part of the answer."""

_BATCH = 1024
_encode = msgspec.json.Encoder().encode


class Limits(msgspec.Struct, frozen=True):
    """Limits of a result; larger ones than ``HANDED_OVER`` go to ``file``."""

    max_rows: int | None
    max_bytes: int
    file: str | None = None


class Rows:
    """Encodes each row at once: Python objects would take ten times the memory."""

    def __init__(self, names: list[str], shapes: list[Shape], limits: Limits) -> None:
        self._columns = unique(names)
        self._reads = [(at, s.read) for at, s in enumerate(shapes) if s.read]
        self._limits = limits
        self._rows: list[bytes] = []
        self._count = 0
        self._file: BinaryIO | None = None
        self._size = len(_encode(self._columns))

    def read(self, cursor: duckdb.DuckDBPyConnection) -> None:
        while batch := cursor.fetchmany(_BATCH):
            for values in batch:
                self._take(list(values))
            if self._size > HANDED_OVER and self._limits.file is not None:
                self._write(self._limits.file)

    def as_json(self) -> bytes:
        if self._file is not None:
            self._write(self._file.name)
            self._file.close()
            result = {"rows": None, "columns": self._columns, "rowcount": self._count}
            return _encode({**result, "stored": "json"})
        head = f'"columns":{_encode(self._columns).decode()},"rowcount":'
        rows = b",".join(self._rows)
        return b'{"rows":[%b],%b%d}' % (rows, head.encode(), self._count)

    def _write(self, file: str) -> None:
        if self._file is None:
            self._file = open(file, "xb")  # noqa: SIM115
        self._file.writelines(row + b"\n" for row in self._rows)
        self._rows.clear()

    def _take(self, values: list[Any]) -> None:
        for at, read in self._reads:
            if values[at] is not None:
                values[at] = read(values[at])
        row = _encode(dict(zip(self._columns, values, strict=True)))
        self._rows.append(row)
        self._count += 1
        self._size += len(row) + 1
        if self._size > self._limits.max_bytes:
            raise too_large(f"{self._limits.max_bytes} bytes", "max_bytes")
        most = self._limits.max_rows
        if most is not None and self._count > most:
            raise too_large(f"{most} rows", "max_rows")


def count_only(count: int) -> bytes:
    """Return the result of a statement without rows."""
    return b'{"rows":[],"columns":[],"rowcount":%d}' % count


def too_large(limit: str, knob: str) -> Refusal:
    return Refusal(
        "duckdb.too_large",
        f"the result has more than {limit} (spec.{knob}): select fewer rows or "
        "columns, aggregate in SQL, keep it in a table, or write a file with export",
    )


def unique(names: list[str]) -> list[str]:
    """Make column names unique: the second ``id`` is ``id_2``, unless that exists."""
    taken = set(names)
    found: dict[str, None] = {}
    for each in names:
        key, number = each, 2
        while key in found or (key != each and key in taken):
            key = f"{each}_{number}"
            number += 1
        found[key] = None
    return list(found)
