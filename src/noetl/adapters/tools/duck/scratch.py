"""A folder for one call: its rows on their way in, and what memory cannot hold."""

from __future__ import annotations

import os
import secrets
import shutil
import tempfile


class Scratch:
    """Made when something is written, by us or by DuckDB; removed by who has it."""

    def __init__(self, home: str | None) -> None:
        self._above = os.path.join(home, "tmp") if home else tempfile.gettempdir()
        self.path = os.path.join(self._above, f"duckdb-{secrets.token_hex(8)}")
        self._count = 0

    def prepare(self) -> None:
        """DuckDB makes the folder itself, but not the one above it."""
        os.makedirs(self._above, mode=0o700, exist_ok=True)

    def write(self, data: bytes) -> str:
        os.makedirs(self.path, mode=0o700, exist_ok=True)
        self._count += 1
        file = os.path.join(self.path, f"{self._count}.json")
        with open(file, "wb") as opened:
            opened.write(data)
        return file

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
