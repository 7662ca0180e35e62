"""Step runs of an execution: in pages, and one of them with its calls."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Collection

import msgspec

from noetl.engine.events import Event
from noetl.ports import LogReader, Summary
from noetl.report.page_data import Reasons
from noetl.report.run_lines import RunLine, RunPage
from noetl.service.errors import RequestRefused
from noetl.service.executions.views.calls import Details
from noetl.service.executions.views.graphs import PlaybooksThatRan
from noetl.service.executions.views.tallies import PAGE, Folded, LogTallies
from noetl.types import JSON

MAX_RUNS = 200
MAX_PAGES = 20
"""Pages of the log that one listing looks through; its cursor continues after them."""
MAX_LATER = 200
"""Pages that are searched for the ends of runs."""
FROM_BEGIN, TO_END = 20_000, 2_000
"""Events of a run that are read, from its begin and up to its end."""
AFTER_END = 100
"""Events after the end of a run, among which the answers of its arcs are."""
SLICE = 1_000
_NUMBER = re.compile(r"[0-9]{1,9}\Z")


class RunFilter(msgspec.Struct, frozen=True):
    """What a listing wants: runs of a step, or with one of some statuses."""

    step: str | None = None
    statuses: Collection[str] = ()

    def fits(self, line: RunLine) -> bool:
        return not self.statuses or line.status in self.statuses


class Position(msgspec.Struct, frozen=True):
    """The place of a run: page of the log, and number among the runs it begins."""

    page: int = 0
    index: int = 0

    def __str__(self) -> str:
        return f"{self.page}-{self.index}"

    @classmethod
    def read(cls, text: str | None) -> Position:
        """Read a cursor that the API has checked."""
        return cls() if text is None else cls(*map(int, text.split("-")))


class Runs:
    """Reads runs from the pages that are kept with the tallies of a log."""

    def __init__(
        self, log: LogReader, tallies: LogTallies, playbooks: PlaybooksThatRan
    ) -> None:
        self._log = log
        self._tallies = tallies
        self._playbooks = playbooks

    async def page(
        self, summary: Summary, wanted: RunFilter, start: Position, limit: int
    ) -> tuple[list[RunLine], Position | None]:
        """Return runs in the order of their begin, and where the next page starts.

        A page may be empty and have a next one.
        """
        found: list[RunLine] = []
        pages = -(-await self._log.length(summary.execution_id) // PAGE)
        last = min(pages, start.page + MAX_PAGES)
        for number in range(start.page, last):
            begun = (await self._page(summary, number, pages)).begun
            first = start.index if number == start.page else 0
            asked = [
                (index, line)
                for index, line in enumerate(begun[first:], first)
                if wanted.step in (None, line.step)
            ]
            ends = await self._ends(summary, asked, number, pages)
            for index, line in asked:
                line = ends.get(line.run, line)
                if wanted.fits(line):
                    if len(found) == limit:
                        return found, Position(number, index)
                    found.append(line)
        return found, Position(last) if last < pages else None

    async def show(self, summary: Summary, run: str) -> dict[str, JSON]:
        """Return a run with its calls and the reasons of decisions.

        ``run`` is an id or a number. Raises ``RequestRefused`` (``run.unknown``).
        """
        line = await self.find(summary, run)
        playbook = await self._playbooks.find(summary.execution_id)
        details = Details(line, playbook, Reasons(playbook))
        async for event in self._events(summary.execution_id, line):
            details.take(event)
        return details.as_json()

    async def find(self, summary: Summary, run: str) -> RunLine:
        """Return the line of a run. Raises ``RequestRefused`` (``run.unknown``)."""
        text = run.removeprefix(f"{summary.execution_id}-")
        number = int(text) if _NUMBER.match(text) else 0
        pages = -(-await self._log.length(summary.execution_id) // PAGE)
        low, high = 0, pages - 1
        while low < high:
            middle = (low + high) // 2
            page = await self._page(summary, middle, pages)
            low, high = (low, middle) if page.last >= number else (middle + 1, high)
        begun = (await self._page(summary, low, pages)).begun if pages else []
        for line in begun:
            if line.number == number:
                asked = [(0, line)]
                ends = await self._ends(summary, asked, low, pages)
                return ends.get(line.run, line)
        message = f"the execution has no step run '{run[:80]}'"
        raise RequestRefused("run.unknown", message)

    async def last_of(self, summary: Summary, step: str) -> RunLine | None:
        """Return the last run of a step, or its last denied token, among those that the
        last pages of the log begin."""
        pages = -(-await self._log.length(summary.execution_id) // PAGE)
        for number in range(pages - 1, max(-1, pages - 1 - MAX_PAGES), -1):
            page = await self._page(summary, number, pages)
            begun = [line for line in page.begun if line.step == step]
            if begun:
                asked = [(0, begun[-1])]
                ends = await self._ends(summary, asked, number, pages)
                return ends.get(begun[-1].run, begun[-1])
        return None

    async def _page(self, summary: Summary, number: int, pages: int) -> RunPage:
        end = (number + 1) * PAGE
        if number == pages - 1:
            folded = await self._latest(summary)
            if folded.tally.seq <= end:
                return folded.runs
        return (await self._tallies.at(summary.execution_id, end)).runs

    async def _latest(self, summary: Summary) -> Folded:
        aside = summary.status == "quarantined"
        return await self._tallies.latest(summary.execution_id, is_damaged=aside)

    async def _ends(
        self, summary: Summary, asked: list[tuple[int, RunLine]], page: int, pages: int
    ) -> dict[str, RunLine]:
        """Return the lines of runs that end after their page, or are still open."""
        missing = {e.run for _, e in asked if e.to_seq is None and e.number > 0}
        found: dict[str, RunLine] = {}
        if not missing or page == pages - 1:
            return found
        latest = (await self._latest(summary)).runs
        found |= {run: latest.open[run] for run in missing & latest.open.keys()}
        for later in range(page + 1, min(pages, page + MAX_LATER)):
            if missing <= found.keys():
                break
            closed = (await self._page(summary, later, pages)).closed
            found |= {line.run: line for line in closed if line.run in missing}
        return found

    async def _events(self, execution_id: str, line: RunLine) -> AsyncIterator[Event]:
        """Yield the events of a run outside of its iterations: those after its begin,
        and those before and after its end."""
        after, left = line.seq - 1, FROM_BEGIN if line.total < 0 else SLICE
        until = None if line.to_seq is None else line.to_seq + AFTER_END
        while left > 0 and (until is None or after < until):
            size = (
                min(SLICE, left) if until is None else min(SLICE, left, until - after)
            )
            events = await self._log.read(execution_id, after=after, limit=size)
            for event in events:
                if _belongs(event, line):
                    yield event
            if len(events) < size:
                return
            after, left = after + size, left - size
        if until is None or after >= until:
            return
        after = max(after, until - TO_END)
        for event in await self._log.read(
            execution_id, after=after, limit=until - after
        ):
            if _belongs(event, line):
                yield event


def _belongs(event: Event, line: RunLine) -> bool:
    if event.iteration_id is not None:
        return False
    return event.step_run_id == line.run or event.seq == line.seq
