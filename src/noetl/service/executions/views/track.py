"""Pages of the track: changes of counters as columns, without values."""

from __future__ import annotations

from collections.abc import Iterable

from noetl.engine.events import Event
from noetl.engine.times import seconds_of
from noetl.ports import Summary
from noetl.report.tally import COUNTERS, EFFECTS, OPS, Change, Tally
from noetl.service.errors import RequestRefused
from noetl.service.executions.views.tallies import PAGE, SLICE, LogTallies
from noetl.types import JSON

MAX_NAMES = 2_000
"""Names of tasks, signals and accounts in one page; further ones are left out."""
_EFFECTS = [[effect.get(name, 0) for name in COUNTERS] for effect in EFFECTS.values()]


class Columns:
    """Changes as columns of numbers; texts are positions in lists."""

    def __init__(self, steps: Iterable[str], *, hides: bool) -> None:
        self._hides = hides
        self.steps = {step: number for number, step in enumerate(steps)}
        self.names: dict[str, int] = {}
        self._columns: dict[str, list[int]] = {
            name: [] for name in ("seq", "ms", "step", "op", "n", "who", "run")
        }

    def add(self, event: Event, start: float, changes: Iterable[Change]) -> None:
        """Add the changes of one event, a row each."""
        ms = round((seconds_of(event.timestamp) - start) * 1_000)
        for change in changes:
            who = None if self._hides and change.step is None else change.who
            row = (
                *(event.seq, ms, self._step(change.step), OPS[change.op]),
                *(change.n, self._name(who), change.run),
            )
            for column, value in zip(self._columns.values(), row, strict=True):
                column.append(value)

    def _step(self, step: str | None) -> int:
        return -1 if step is None else self.steps.setdefault(step, len(self.steps))

    def _name(self, name: str | None) -> int:
        if name is None or (name not in self.names and len(self.names) >= MAX_NAMES):
            return -1
        return self.names.setdefault(name, len(self.names))

    def as_json(self) -> dict[str, JSON]:
        return {"steps": [*self.steps], "names": [*self.names], **self._columns}


class Tracks:
    """Folds one page of a log, from the tally before it."""

    def __init__(self, tallies: LogTallies) -> None:
        self._tallies = tallies

    async def page(
        self, summary: Summary, number: int, last: int, *, hides: bool
    ) -> dict[str, JSON]:
        """Return a page; ``last`` is the end of the log. With ``hides`` it names tasks
        only, no signals and accounts.

        Raises ``RequestRefused`` (``query.invalid``) for a page after the last one.
        """
        before, execution_id = number * PAGE, summary.execution_id
        if before >= last and number:
            message = f"page {number} does not exist: the log ends at event {last}"
            raise RequestRefused("query.invalid", message, parameter="page")
        tally = (await self._tallies.at(execution_id, before)).tally
        opening = [list(counters) for counters in tally.steps.values()]
        found, until = Columns(tally.steps, hides=hides), min(before + PAGE, last)
        async for part in self._tallies.changes(execution_id, tally, until):
            for event, changes in part:
                found.add(event, seconds_of(tally.first), changes)
        is_over = summary.finished_at is not None and tally.seq >= last
        return {
            "page": number,
            "from": before + 1,
            "to": tally.seq,
            "last_seq": last,
            "complete": tally.seq == before + PAGE or is_over,
            "t0": tally.first,
            "counters": list(COUNTERS),
            "ops": list(OPS),
            "effects": _EFFECTS,
            "opening": {"steps": opening},
            **found.as_json(),
        }

    async def begin(self, execution_id: str, seq: int) -> Tally:
        """Return the sums from which ``news`` continues."""
        return (await self._tallies.at(execution_id, seq)).tally

    async def news(
        self, execution_id: str, tally: Tally, *, hides: bool
    ) -> dict[str, JSON]:
        """Return the changes of the next events after a tally, which is continued.

        Steps and names are positions in the lists of this answer.
        """
        found = Columns((), hides=hides)
        async for part in self._tallies.changes(execution_id, tally, tally.seq + SLICE):
            for event, changes in part:
                found.add(event, seconds_of(tally.first), changes)
        return {**found.as_json(), "last_seq": tally.seq}
