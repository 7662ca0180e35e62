"""Request to DuckDB's process, read from the inputs and the spec of a call."""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator, Mapping

import msgspec

from noetl.adapters.files import Roots
from noetl.adapters.processes.channel import MAX_BYTES
from noetl.adapters.processes.limits import read_memory, read_size
from noetl.adapters.tools.duckdb.temp_dirs import find_database, find_file
from noetl.adapters.tools.duckdb.tool import is_read_only
from noetl.errors import ToolError
from noetl.ports import Drafts, ToolCall
from noetl.types import JSON

MEMORY = 1024**3
STORED = 16 * 1024**3
THREADS = 4
_THREAD = 256 * 1024**2  # bytes of memory per thread
FORMATS = {
    ".csv": "csv",
    ".json": "json",
    ".jsonl": "ndjson",
    ".ndjson": "ndjson",
    ".parquet": "parquet",
}
_NAME = re.compile(r"[A-Za-z0-9_]+\Z")


class Attached(msgspec.Struct, frozen=True):
    """Attached file; for the catalog of a lake, ``lake`` is the folder of its data."""

    path: str
    read_only: bool
    lake: str | None = None


class Export(msgspec.Struct, frozen=True):
    """File to export, written as ``part``; without a ``path``, for the result store."""

    path: str | None
    format: str
    part: str


class Table(msgspec.Struct, frozen=True):
    """Rows in a JSON file; with a ``format``, an exported file.

    A table that ``is_large`` must not be held in memory.
    """

    name: str
    file: str
    columns: dict[str, str] | list[str] | None = None
    format: str | None = None
    is_large: bool = False


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """Request, sent to the process as JSON.

    SQL may use files below ``roots``, and ``files``; relative paths begin in
    ``folder``.
    """

    command: str
    params: JSON
    database: str | None
    read_only: bool
    attach: dict[str, Attached]
    extensions: list[str]
    export: Export | None
    folder: str | None
    roots: list[str]
    files: list[str]
    memory: int
    capped: bool
    threads: int
    max_rows: int | None
    max_bytes: int
    each: bool
    rows_file: str | None = None
    scratch: str = ""
    tables: list[Table] = []

    def databases(self) -> dict[str, bool]:
        """Return the paths of the databases, with True for those that it writes."""
        found = {file.path: not file.read_only for file in self.attach.values()}
        if self.database is not None:
            found[self.database] = not self.read_only
        return found


def read_command(inputs: Mapping[str, JSON]) -> str:
    given = [inputs[name] for name in ("command", "query") if name in inputs]
    if len(given) != 1 or not isinstance(given[0], str):
        raise ToolError("tool.contract", "give the SQL as one text: command or query")
    return given[0]


def read_request(call: ToolCall, roots: Roots, ceiling: int | None = None) -> Request:
    """Read a call. Raises ``ToolError`` for invalid inputs and denied files.

    DuckDB gets half of the ``ceiling``, the memory of a process of code: its threads
    and its driver need address space, too, and results are built in memory.
    """
    inputs, spec = call.inputs, call.spec
    command = read_command(inputs)
    reads = is_read_only(command)
    database = read_database(inputs.get("database"), roots)
    visible = roots.visible()
    # Rows for the answer are held in memory; rows for the store are not.
    drafts, most = call.drafts, MAX_BYTES if call.drafts is None else STORED
    params = inputs.get("params")
    if params is not None and not isinstance(params, list | dict):
        raise ToolError("tool.contract", "params must be a list (?) or mapping ($name)")
    half = None if ceiling is None else ceiling // 2
    memory = read_memory(spec) or MEMORY
    threads = read_number(spec, "threads") or min(os.cpu_count() or 1, THREADS)
    if half is not None:
        memory, threads = min(memory, half), min(threads, max(1, half // _THREAD))
    return Request(
        command=command,
        params=params,
        database=database,
        read_only=reads and database is not None,
        attach=dict(read_attached(inputs.get("attach"), roots, reads)),
        extensions=read_extensions(inputs.get("extensions")),
        export=read_export(inputs.get("export"), roots, drafts),
        folder=roots.base,
        roots=visible.folders,
        files=visible.files,
        memory=memory,
        capped=half is not None and memory >= half,
        threads=threads,
        max_rows=read_number(spec, "max_rows"),
        max_bytes=min(read_size(spec, "max_bytes") or most, most),
        each=spec.get("statements") is True,
        rows_file=drafts.file() if drafts is not None else None,
    )


def read_database(given: JSON, roots: Roots) -> str | None:
    """Return the file, or None for a database in memory."""
    if given in (None, "", ":memory:"):
        return None
    if not isinstance(given, str):
        raise ToolError("tool.contract", "database must be the path of a file")
    return find_database(roots, given, "database")


def read_attached(
    given: JSON, roots: Roots, reads: bool
) -> Iterator[tuple[str, Attached]]:
    """Yield aliases and files; in a list, the alias is the file's name."""
    if given is None:
        return
    if isinstance(given, list):
        given = {alias_of(item): item for item in given}
    if not isinstance(given, dict):
        raise ToolError("tool.contract", "attach must be a mapping or a list of files")
    for alias, item in given.items():
        where = f"attach.{alias}"
        if isinstance(item, str):
            item = {"path": item}
        if not isinstance(item, dict) or not isinstance(item.get("path"), str):
            message = f"{where} must be a path, or {{path, read_only, lake}}"
            raise ToolError("tool.contract", message)
        path = find_database(roots, item["path"], where)
        lake = item.get("lake")
        if lake is not None:
            lake = find_file(roots, str(lake), f"{where}.lake")
        yield alias, Attached(path, bool(item.get("read_only", reads)), lake)


def alias_of(item: JSON) -> str:
    path = item.get("path") if isinstance(item, dict) else item
    return os.path.basename(str(path)).partition(".")[0]


def read_extensions(given: JSON) -> list[str]:
    if given is None:
        return []
    if not isinstance(given, list) or not all(
        isinstance(each, str) and _NAME.match(each) for each in given
    ):
        raise ToolError("tool.contract", "extensions must be a list of names")
    return given


def read_export(given: JSON, roots: Roots, drafts: Drafts | None) -> Export | None:
    if given is None:
        return None
    if isinstance(given, str):
        given = {"path": given}
    if isinstance(given, dict) and given.keys() == {"format"} and drafts is not None:
        if given["format"] not in ("csv", "ndjson", "parquet"):
            message = (
                "export.format without a path must be one of csv, ndjson, parquet; as "
                "JSON a large result goes to the result store by itself"
            )
            raise ToolError("tool.contract", message)
        return Export(None, given["format"], drafts.file())
    if not isinstance(given, dict) or not isinstance(given.get("path"), str):
        message = "export must be a path, {path, format} or {format}"
        raise ToolError("tool.contract", message)
    path = find_file(roots, given["path"], "export")
    folder, name = os.path.split(path)
    part = os.path.join(folder, f".{name}.{secrets.token_hex(8)}")
    return Export(path, read_format(given, "export"), part)


def read_format(given: Mapping[str, JSON], where: str) -> str:
    """Return the given format, else that of the file's suffix."""
    ending = os.path.splitext(str(given["path"]))[1].lower()
    found = given.get("format", FORMATS.get(ending))
    if found in FORMATS.values():
        return str(found)
    known = ", ".join(sorted(set(FORMATS.values())))
    raise ToolError("tool.contract", f"{where}.format must be one of {known}")


def read_number(spec: Mapping[str, JSON], name: str) -> int | None:
    value = spec.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        message = f"spec.{name}: {value!r:.40} is not a whole number of at least 1"
        raise ToolError("tool.contract", message)
    return value
