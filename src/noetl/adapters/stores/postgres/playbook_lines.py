"""What summaries say of playbooks, in a table of its own, by a hash of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from noetl.adapters.postgres import Postgres
from noetl.adapters.stores.postgres.queries import SQL
from noetl.adapters.stores.summaries import EncodedSummary, keys_in

MAX_LINES = 1_000
"""Cached lines; at this number the cache is emptied. A line never changes."""


class PlaybookLines:
    """Stores lines that are new, and reads those that are not cached."""

    def __init__(self, postgres: Postgres) -> None:
        self._postgres = postgres
        self._lines: dict[str, str] = {}

    async def keep(self, summaries: Iterable[EncodedSummary]) -> None:
        """Store the lines that these summaries need."""
        new = {
            each.key: each.line
            for each in summaries
            if each.key is not None and each.key not in self._lines
        }
        if new:
            rows = list(new), list(new.values())
            await self._postgres.run(lambda c: c.execute(SQL["keep_playbooks"], *rows))
            self._remember(new)

    async def find(self, texts: Sequence[str]) -> Mapping[str, str]:
        """Return the lines that summaries need, by their keys."""
        keys = keys_in(texts)
        found = {key: self._lines[key] for key in keys & self._lines.keys()}
        if missing := list(keys - found.keys()):
            rows = await self._postgres.run(
                lambda c: c.fetch(SQL["playbooks"], missing)
            )
            read = {row["key"]: row["body"] for row in rows}
            self._remember(read)
            found |= read
        return found

    def _remember(self, lines: Mapping[str, str]) -> None:
        if len(self._lines) + len(lines) > MAX_LINES:
            self._lines.clear()
        self._lines.update(lines)
