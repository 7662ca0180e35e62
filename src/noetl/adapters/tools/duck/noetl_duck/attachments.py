"""``ATTACH`` in the SQL: which file it means.

DuckDB checks where a link leads to, unless nothing is there yet; then it would make the
file at the other end. So we look first.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

import duckdb

from .refusals import Refusal

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
    """The path, which must be a plain text: an expression cannot be looked into."""
    parts = [part for part in split(sql) if part.upper() not in _WORDS]
    path = parts[0].decode() if parts else ""
    after = parts[1].upper() if len(parts) > 1 else b""
    inner = path[1:-1].replace("''", "'")
    is_text = len(path) >= 2 and path[0] == path[-1] == "'"
    if not is_text or after not in _AFTER or (":" in inner and inner != ":memory:"):
        message = (
            "ATTACH takes the path of a file as a plain text; see the input attach"
        )
        raise Refusal("duckdb.forbidden", message)
    return inner


def split(sql: str) -> list[bytes]:
    """Its tokens, without comments."""
    text = sql.encode()
    tokens = duckdb.tokenize(sql)
    ends = [start for start, _ in tokens[1:]] + [len(text)]
    return [
        text[start:end].strip()
        for (start, kind), end in zip(tokens, ends, strict=True)
        if kind != duckdb.token_type.comment
    ]
