"""Limits of the unfinished executions of a team, by the paths of playbooks."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from noetl.engine.state import ExecutionStatus
from noetl.ports import Clock, ExecutionIndex
from noetl.service.errors import RequestRefused
from noetl.triggers.parse import covers

RECOUNT_S = 10.0
"""Seconds after which executions that other servers started are counted."""
AT_LIMIT_S = 1.0
"""The same where a start would be refused: one that ended has made room."""
PAGE = 1_000
_OPEN: tuple[ExecutionStatus, ...] = ("running", "waiting", "paused")


class PathLimits:
    """Counts what the store lists as unfinished, and what was started since.

    ``limits`` are pairs of a pattern (``sales/*``) and a number. Children of executions
    are not counted. Between two counts servers do not know of each other's starts: a
    limit may be exceeded by as many as the others start in that time.
    """

    def __init__(
        self, limits: Sequence[tuple[str, int]], store: ExecutionIndex, clock: Clock
    ) -> None:
        self._limits = dict(limits)
        self._store = store
        self._clock = clock
        self._open: dict[str, int] = {}
        self._counted_at: float | None = None
        self._counting = asyncio.Lock()

    async def admit(self, path: str | None) -> None:
        """Count one more execution of this playbook. Raises ``RequestRefused``."""
        patterns = [each for each in self._limits if covers(each, path or "")]
        if not patterns:
            return
        async with self._counting:
            await self._count(patterns)
            for pattern in patterns:
                count, limit = self._open[pattern], self._limits[pattern]
                if count >= limit:
                    message = f"{count} executions of {pattern} have not finished, and "
                    message += f"the limit is {limit} (setting limits_executions)"
                    hint = "start it again later, or cancel what is not needed"
                    raise RequestRefused("quota.executions", message, hint)
            for pattern in patterns:
                self._open[pattern] += 1

    async def _count(self, patterns: Sequence[str]) -> None:
        now, at = self._clock.now(), self._counted_at
        is_full = any(
            self._open.get(each, 0) >= self._limits[each] for each in patterns
        )
        if at is not None and 0 <= now - at < (AT_LIMIT_S if is_full else RECOUNT_S):
            return
        found = dict.fromkeys(self._limits, 0)
        for status in _OPEN:
            before = None
            while page := await self._store.find(
                status=status, before=before, limit=PAGE
            ):
                for each in page:
                    if each.parent_id is None:
                        path = each.playbook.get("path") or ""
                        for pattern in found:
                            found[pattern] += covers(pattern, path)
                before = page[-1].execution_id
        self._open, self._counted_at = found, now
