"""Export of a result to a file, written atomically."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import duckdb
import msgspec

from .errors import Refusal, literal

_OPTIONS = {
    "csv": "FORMAT csv, HEADER true",
    "json": "FORMAT json, ARRAY true",
    "ndjson": "FORMAT json",
    "parquet": "FORMAT parquet",
}


class Export:
    """Writes to ``part``, and renames it to ``path`` after the commit.

    Without a ``path``, the worker moves the file to the result store.
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


_WORDS = frozenset(
    {b"ATTACH", b"OR", b"REPLACE", b"DATABASE", b"IF", b"NOT", b"EXISTS"}
)
_AFTER = frozenset({b"", b";", b"(", b"AS"})


def check_attachment(sql: str, roots: Sequence[str]) -> None:
    """Raise ``Refusal`` if a link would lead the statement out of the folders."""
    path = path_of(sql)
    if path == ":memory:":
        return
    for file in (path, f"{path}.wal"):
        real = os.path.realpath(file)
        if not any(os.path.commonpath((root, real)) == root for root in roots):
            message = f"'{path}' leads out of the allowed folders (files.roots)"
            raise Refusal("duckdb.external_access", message)


def path_of(sql: str) -> str:
    """Return the path, which must be a literal. Raises ``Refusal``."""
    parts = [part for part in split(sql) if part.upper() not in _WORDS]
    path = parts[0].decode() if parts else ""
    after = parts[1].upper() if len(parts) > 1 else b""
    inner = path[1:-1].replace("''", "'")
    is_text = len(path) >= 2 and path[0] == path[-1] == "'"
    if not is_text or after not in _AFTER or (":" in inner and inner != ":memory:"):
        message = "ATTACH needs the path of a file as a literal; see the input attach"
        raise Refusal("duckdb.forbidden", message)
    return inner


def split(sql: str) -> list[bytes]:
    """Return the tokens without comments."""
    text = sql.encode()
    tokens = duckdb.tokenize(sql)
    ends = [start for start, _ in tokens[1:]] + [len(text)]
    return [
        text[start:end].strip()
        for (start, kind), end in zip(tokens, ends, strict=True)
        if kind != duckdb.token_type.comment
    ]
