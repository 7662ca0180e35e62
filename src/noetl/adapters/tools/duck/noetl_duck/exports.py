"""A result as a file: whole under its name, or not there."""

from __future__ import annotations

import os
from typing import Any

import duckdb
import msgspec

from .quoting import literal

_OPTIONS = {
    "csv": "FORMAT csv, HEADER true",
    "json": "FORMAT json, ARRAY true",
    "ndjson": "FORMAT json",
    "parquet": "FORMAT parquet",
}


class Export:
    """``part`` is where it is written to, beside ``path``, until all is committed.

    Without a ``path``, somebody else takes it to the result store.
    """

    def __init__(self, path: str | None, part: str, form: str) -> None:
        self._path = path
        self._part = part
        self._form = form
        self._rows = 0
        self._columns: list[str] = []

    @classmethod
    def of(cls, request: dict[str, Any] | None) -> Export | None:
        if request is None:
            return None
        return cls(request["path"], request["part"], request["format"])

    def write(
        self,
        connection: duckdb.DuckDBPyConnection,
        query: str,
        params: Any,
        columns: list[str],
    ) -> None:
        self._columns = columns
        target = f"{literal(self._part)} ({_OPTIONS[self._form]})"
        done = connection.execute(f"COPY (\n{query}\n) TO {target}", params)
        ((self._rows,),) = done.fetchall()

    def publish(self) -> bytes:
        if self._path is None:
            result = {"rows": None, "columns": self._columns, "rowcount": self._rows}
            return msgspec.json.encode({**result, "stored": self._form})
        size = os.stat(self._part).st_size
        os.replace(self._part, self._path)
        reference = {
            "path": self._path,
            "format": self._form,
            "rows": self._rows,
            "size": size,
        }
        return msgspec.json.encode(reference)
