"""Input ``tables``: earlier results as files that DuckDB reads."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import AsyncExitStack

import msgspec

from noetl.adapters.files import Roots
from noetl.adapters.tools.duckdb.request import Table, read_format
from noetl.adapters.tools.duckdb.temp_dirs import Scratch, find_file
from noetl.engine.values.references import FILES, is_reference
from noetl.errors import ToolError
from noetl.ports import Drafts
from noetl.types import JSON

Files = Mapping[str, str]
Columns = dict[str, str] | list[str] | None

_TYPE = re.compile(r"[A-Za-z][\w ,()\[\]\"']*\Z")
_members = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode


LARGE = 32 * 1024 * 1024
"""Bytes of JSON above which a table is not held in memory."""


async def fetch(given: JSON, drafts: Drafts | None, stack: AsyncExitStack) -> Files:
    """Fetch the files of references, by key; the stack releases them."""
    files: dict[str, str] = {}
    for name, value in given.items() if isinstance(given, dict) else ():
        found = value.get("rows") if _is_result(value) else value
        if not is_reference(found):
            continue
        key, where = str(found.get("key")), f"tables.{name}"
        if drafts is None or key.startswith("log:"):
            message = f"{where} is a reference without a file: leave the filter ref out"
            raise ToolError("tool.contract", message)
        try:
            files[key] = await stack.enter_async_context(drafts.stored(key))
        except ToolError as error:
            message = f"{where}: {error.message}"
            raise ToolError(error.kind, message, retryable=error.retryable) from None
    return files


def _is_result(value: JSON) -> bool:
    return isinstance(value, dict) and "rows" in value and not is_reference(value)


class Tables:
    """Reads ``{name: rows}``: a list, a reference, a file, or ``{rows, columns}``.

    Lists are written to files in ``scratch``; ``files`` are those of references.
    """

    def __init__(self, roots: Roots, scratch: Scratch, files: Files) -> None:
        self._roots = roots
        self._scratch = scratch
        self._files = files

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
                path = find_file(self._roots, value["path"], where)
                yield Table(name, path, format=read_format(value, where))
            elif isinstance(value, dict) and not is_reference(value):
                columns = read_columns(value.get("columns"), where)
                yield self._table(name, value.get("rows"), where, columns)
            else:
                yield self._table(name, value, where)

    def _table(
        self, name: str, rows: JSON, where: str, columns: Columns = None
    ) -> Table:
        if is_reference(rows) and rows.get("schema_hint") in FILES:
            return Table(name, self._files[rows["key"]], format=rows["schema_hint"])
        file = self._file(rows, where)
        is_large = os.path.getsize(file) > LARGE
        if is_large:
            self._scratch.make()  # for its copy
        return Table(name, file, columns, is_large=is_large)

    def _file(self, rows: JSON, where: str) -> str:
        if isinstance(rows, list):
            return self._scratch.write(msgspec.json.encode(rows))
        if not is_reference(rows):
            message = f"{where} must be a list of rows, or {{rows, columns}}"
            raise ToolError("tool.contract", message)
        file = self._files[rows["key"]]
        if rows.get("schema_hint") == "mapping":
            return self._rows_of(file, where)
        return file

    def _rows_of(self, file: str, where: str) -> str:
        """Write the member ``rows`` of a result to a file, without decoding it."""
        with open(file, "rb") as opened:
            members = _members(opened.read())
        if "rows" not in members:
            message = f"{where} is a reference to a mapping that has no rows"
            raise ToolError("tool.contract", message)
        return self._scratch.write(bytes(members["rows"]))


def read_columns(given: JSON, where: str) -> Columns:
    """Read ``{name: type}``, or a list of names as in a result."""
    if given is None:
        return None
    if isinstance(given, list) and given and all(isinstance(c, str) for c in given):
        return given
    if isinstance(given, Mapping) and given:
        types = {str(column): str(kind) for column, kind in given.items()}
        wrong = [column for column in types if not _TYPE.match(types[column])]
        if not wrong:
            return types
        message = f"{where}.columns.{wrong[0]} is not an SQL type such as BIGINT"
        raise ToolError("tool.contract", message)
    message = f"{where}.columns must be names, or a mapping such as {{id: BIGINT}}"
    raise ToolError("tool.contract", message)
