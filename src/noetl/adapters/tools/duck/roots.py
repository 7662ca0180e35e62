"""Which files a call of DuckDB may touch."""

from __future__ import annotations

import os

from noetl.adapters.files import Roots
from noetl.errors import ToolError

DENIED = "duckdb.external_access"
NO_NETWORK = "is not on this machine: DuckDB has no network; fetch it with kind http"


def resolve(roots: Roots, path: str, where: str) -> str:
    """The real path of a file. Raises ``ToolError`` if it is not allowed."""
    file = roots.resolve(path, where, DENIED)
    if file in roots.folders:
        raise ToolError("tool.contract", f"{where}: '{path}' is a folder")
    return file


def resolve_database(roots: Roots, path: str, where: str) -> str:
    """The same for a database, whose log is a second file beside it."""
    file = resolve(roots, path, where)
    if os.path.islink(f"{file}.wal"):
        message = f"{where}: '{path}.wal' is a link; a database's log must be none"
        raise ToolError(DENIED, message)
    return file
