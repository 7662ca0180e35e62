"""Earlier results as files that DuckDB reads by itself: not value by value."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Protocol

import msgspec

from noetl.adapters.tools.duck.request import Table, read_format
from noetl.adapters.tools.duck.roots import Roots
from noetl.adapters.tools.duck.scratch import Scratch
from noetl.engine.references import is_reference
from noetl.errors import StoreError, ToolError
from noetl.types import JSON

_TYPE = re.compile(r"[A-Za-z][\w ,()\[\]\"']*\Z")
_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


class BlobFiles(Protocol):
    """Where large values are files: then nobody needs to read them twice."""

    def locate(self, key: str) -> str:
        """The file, verified. Raises ``StoreError``: it is gone, or corrupt."""
        ...


class Tables:
    """``{name: rows}``: a list, a reference, an exported file, or ``{rows, columns}``.

    What is no file yet is written to ``scratch``.
    """

    def __init__(self, roots: Roots, scratch: Scratch, blobs: BlobFiles | None) -> None:
        self._roots = roots
        self._scratch = scratch
        self._blobs = blobs

    def read(self, given: JSON) -> Iterator[Table]:
        if given is None:
            return
        if not isinstance(given, dict):
            raise ToolError(
                "tool.contract", "tables must be a mapping of names to rows"
            )
        for name, value in given.items():
            where = f"tables.{name}"
            if isinstance(value, dict) and isinstance(value.get("path"), str):
                path = self._roots.resolve(value["path"], where)
                yield Table(name, path, format=read_format(value, where))
            elif isinstance(value, dict) and not is_reference(value):
                columns = read_columns(value.get("columns"), where)
                yield Table(name, self._file(value.get("rows"), where), columns)
            else:
                yield Table(name, self._file(value, where))

    def _file(self, rows: JSON, where: str) -> str:
        if isinstance(rows, list):
            return self._scratch.write(msgspec.json.encode(rows))
        if not is_reference(rows):
            message = f"{where} must be a list of rows, or {{rows, columns}}"
            raise ToolError("tool.contract", message)
        key = str(rows.get("key"))
        if self._blobs is None or key.startswith("log:"):
            message = (
                f"{where} is a reference that is no file: leave the filter ref out"
            )
            raise ToolError("tool.contract", message)
        try:
            file = self._blobs.locate(key)
        except StoreError as error:
            raise ToolError(error.kind, f"{where}: {error}") from None
        if rows.get("schema_hint") == "mapping":
            return self._rows_of(file, where)
        return file

    def _rows_of(self, file: str, where: str) -> str:
        """Of a whole result: its member ``rows``, cut out without looking into it."""
        with open(file, "rb") as opened:
            members = _members(opened.read())
        if "rows" not in members:
            message = f"{where} is a reference to a mapping that has no rows"
            raise ToolError("tool.contract", message)
        return self._scratch.write(bytes(members["rows"]))


def read_columns(given: JSON, where: str) -> dict[str, str] | list[str] | None:
    """``{name: type}``, or names alone, as a result has them."""
    if given is None:
        return None
    if isinstance(given, list) and given and all(isinstance(c, str) for c in given):
        return given
    if isinstance(given, Mapping) and given:
        types = {str(column): str(kind) for column, kind in given.items()}
        wrong = [column for column in types if not _TYPE.match(types[column])]
        if not wrong:
            return types
        raise ToolError("tool.contract", f"{where}.columns.{wrong[0]} is no SQL type")
    message = f"{where}.columns must be names, or a mapping such as {{id: BIGINT}}"
    raise ToolError("tool.contract", message)
