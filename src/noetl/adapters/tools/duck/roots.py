"""Which files a call of DuckDB may touch."""

from __future__ import annotations

import os

from noetl.adapters.files import Roots
from noetl.errors import ToolError

NO_NETWORK = "is not on this machine: DuckDB has no network; fetch it with kind http"


def find_file(roots: Roots, path: str, where: str) -> str:
    """The real path of a file. Raises ``ToolError`` if it is not allowed."""
    file = roots.locate(path, where, "duckdb.external_access")
    if file in roots.folders:
        raise ToolError("tool.contract", f"{where}: '{path}' is a folder")
    return file


def find_database(roots: Roots, path: str, where: str) -> str:
    """The same for a database, whose log is a second file beside it."""
    file = find_file(roots, path, where)
    if os.path.islink(f"{file}.wal"):
        message = f"{where}: '{path}.wal' is a link; a database's log must be none"
        raise ToolError("duckdb.external_access", message)
    return file
