"""Which files a call may touch: those below the allowed folders, links resolved."""

from __future__ import annotations

import os
from collections.abc import Sequence

from noetl.errors import ToolError

OUTSIDE = (
    "is outside of the allowed folders: the playbook's, the current one and NOETL_HOME"
)
NO_NETWORK = "is not on this machine: DuckDB has no network; fetch it with kind http"


class Roots:
    """``folder`` is the playbook's own: relative paths begin there."""

    def __init__(self, folder: str | None, others: Sequence[str]) -> None:
        self.folder = os.path.realpath(folder or os.getcwd())
        found = [self.folder, *map(os.path.realpath, others)]
        self.folders = list(dict.fromkeys(found))

    def resolve_database(self, path: str, where: str) -> str:
        """The same for a database, whose log is a second file beside it."""
        file = self.resolve(path, where)
        if os.path.islink(f"{file}.wal"):
            message = f"{where}: '{path}.wal' is a link; a database's log must be none"
            raise ToolError("duckdb.external_access", message)
        return file

    def resolve(self, path: str, where: str) -> str:
        """The real path. Raises ``ToolError`` if it is not below a root."""
        if not path or "\0" in path:
            raise ToolError("tool.contract", f"{where} is no path of a file")
        file = os.path.realpath(os.path.join(self.folder, path))
        if file in self.folders:
            raise ToolError("tool.contract", f"{where}: '{path}' is a folder")
        if any(is_below(file, root) for root in self.folders):
            return file
        message = f"{where}: '{path}' {OUTSIDE}"
        raise ToolError("duckdb.external_access", message)


def is_below(file: str, root: str) -> bool:
    return file != root and os.path.commonpath((root, file)) == root
