"""Executions in memory that wait for an export: their timers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from noetl.adapters.stores.rules import exports_of, timer_of
from noetl.ports import Timer, WaitingExports


class ExportTimers:
    """The timers of kind ``export`` among all timers, by execution number and id."""

    def __init__(self, timers: dict[int, dict[str, Timer]]) -> None:
        self._timers = timers

    async def claim(
        self, name: str, *, now: float, until: float, limit: int
    ) -> Sequence[str]:
        waiting = [each for _, each in self._of(name) if each.due_at <= now]
        waiting.sort(key=lambda each: each.due_at)
        found = [each.execution_id for each in waiting[:limit]]
        await self.postpone(name, found, until=until)
        return found

    async def postpone(
        self, name: str, execution_ids: Sequence[str], *, until: float
    ) -> None:
        for timers, timer in self._of(name):
            if timer.execution_id in execution_ids:
                later = msgspec.structs.replace(timer, due_at=until)
                timers[timer.timer_id] = later

    async def end(self, name: str, execution_ids: Sequence[str]) -> None:
        for timers, timer in list(self._of(name)):
            if timer.execution_id in execution_ids:
                del timers[timer.timer_id]

    async def count(self) -> Mapping[str, WaitingExports]:
        found: dict[str, list[str]] = {}
        for number in sorted(self._timers):
            for timer in self._timers[number].values():
                if timer.kind == "export":
                    found.setdefault(timer.timer_id, []).append(timer.execution_id)
        return exports_of((name, len(ids), ids[0]) for name, ids in found.items())

    def _of(self, name: str) -> Iterator[tuple[dict[str, Timer], Timer]]:
        wanted = timer_of(name)
        for timers in self._timers.values():
            timer = timers.get(wanted)
            if timer is not None and timer.kind == "export":
                yield timers, timer
