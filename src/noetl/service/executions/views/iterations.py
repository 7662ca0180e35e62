"""Iterations of a loop: progress, groups of errors, and pages of lines."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from heapq import nlargest
from itertools import islice
from typing import Literal

import msgspec

from noetl.engine.events import Event
from noetl.ports import LogReader, Summary
from noetl.report.loop_lines import STATUSES, LineError, LoopLines
from noetl.report.run_lines import RunLine
from noetl.report.values import cut
from noetl.service.errors import RequestRefused
from noetl.service.executions.sensitive import HIDDEN
from noetl.service.executions.views.runs import Runs
from noetl.types import JSON

Order = Literal["index", "time", "duration"]

SLICE = 1_000
"""Events that are folded at once."""
MAX_FOLDED = 100_000
"""Events that one request folds; the next one continues."""
MAX_SORTED = 10_000
"""Lines of an order other than that of the items."""
CACHE_BYTES = 64 * 1024 * 1024
VALUE_BYTES = 512
WINDOW = 200
"""Events that are read at once for the elements of iterations."""


class _Known(msgspec.Struct):
    """Lines of a loop; one request at a time continues them."""

    lines: LoopLines
    lock: asyncio.Lock


class IterationQuery(msgspec.Struct, frozen=True):
    """Which iterations, in which order, and how many were shown already."""

    status: str | None = None
    order: Order = "index"
    after: int = 0
    limit: int = 200


class Iterations:
    """Keeps the lines of loops in memory, as long as there is room."""

    def __init__(self, log: LogReader, runs: Runs) -> None:
        self._log = log
        self._runs = runs
        self._known: OrderedDict[str, _Known] = OrderedDict()

    async def show(
        self, summary: Summary, run: str, query: IterationQuery, *, hides: bool
    ) -> dict[str, JSON]:
        """Return the progress of the loop of a run, and a page of its iterations.

        Raises ``RequestRefused`` (``run.unknown``) for a run without a loop.
        """
        line = await self._runs.find(summary, run)
        if line.total < 0:
            message = f"the run {line.number} of step '{line.step}' has no loop"
            raise RequestRefused("run.unknown", message)
        lines, is_whole = await self._fold(summary.execution_id, line)
        found, following = await asyncio.to_thread(_choose, lines, query)
        values, errors = {}, {}
        if not hides:
            values = await self._values(summary.execution_id, lines, found)
        errors = await self._errors(summary.execution_id, lines, found, hides=hides)
        return {
            "run": line.run,
            "step": line.step,
            **_progress(lines, hides=hides),
            "complete": is_whole,
            "items": [
                {
                    **_line(lines, index),
                    "value": values.get(index),
                    "error": errors.get(index),
                }
                for index in found
            ],
            "cursor": following,
        }

    async def _fold(self, execution_id: str, line: RunLine) -> tuple[LoopLines, bool]:
        """Return the lines, and whether they reach the end of the log or the loop."""
        known = self._known.get(line.run)
        if known is None:
            lines = LoopLines(line.run, line.seq)
            known = self._known[line.run] = _Known(lines, asyncio.Lock())
        self._known.move_to_end(line.run)
        left = MAX_FOLDED
        async with known.lock:
            lines = known.lines
            while left > 0 and not lines.has_ended:
                events = await self._log.read(
                    execution_id, after=lines.seq, limit=SLICE
                )
                for event in events:
                    lines.take(event)
                left -= SLICE
                if len(events) < SLICE:
                    break
        self._drop()
        return lines, left > 0 or lines.has_ended

    def _drop(self) -> None:
        sizes = {run: known.lines.size for run, known in self._known.items()}
        total = sum(sizes.values())
        while len(self._known) > 1 and (total > CACHE_BYTES or len(self._known) > 64):
            run, _ = self._known.popitem(last=False)
            total -= sizes[run]

    async def _values(
        self, execution_id: str, lines: LoopLines, found: Sequence[int]
    ) -> dict[int, JSON]:
        """Return the elements: from the loop, or from the begins of iterations."""
        values: dict[int, JSON] = {}
        wanted: dict[int, int] = {}
        for index in found:
            is_known, value = lines.value(index)
            if is_known:
                values[index] = cut(value, VALUE_BYTES)
            elif lines.first_seq[index]:
                wanted[lines.first_seq[index]] = index
        for event in await self._read(execution_id, sorted(wanted)):
            values[wanted[event.seq]] = cut(event.payload.get("item"), VALUE_BYTES)
        return values

    async def _errors(
        self,
        execution_id: str,
        lines: LoopLines,
        found: Sequence[int],
        *,
        hides: bool,
    ) -> dict[int, JSON]:
        failed = [index for index in found if STATUSES[lines.status[index]] == "failed"]
        kept = {index: lines.errors[index] for index in failed if index in lines.errors}
        missing = {lines.last_seq[i]: i for i in failed if i not in kept}
        for event in await self._read(execution_id, sorted(missing)):
            kept[missing[event.seq]] = LineError.of(event)
        shown = {index: msgspec.to_builtins(error) for index, error in kept.items()}
        if hides:
            shown = {n: {**error, "message": HIDDEN} for n, error in shown.items()}
        return shown

    async def _read(self, execution_id: str, seqs: Sequence[int]) -> list[Event]:
        """Read single events; those that are near each other at once."""
        found: list[Event] = []
        rest = list(seqs)
        while rest:
            first = rest[0]
            near = [seq for seq in rest if seq < first + WINDOW]
            rest = rest[len(near) :]
            events = await self._log.read(
                execution_id, after=first - 1, limit=near[-1] - first + 1
            )
            wanted = set(near)
            found += [event for event in events if event.seq in wanted]
        return found


def _choose(lines: LoopLines, query: IterationQuery) -> tuple[list[int], int | None]:
    """Return the indices of a page, and the cursor of the next one."""
    status = None if query.status is None else STATUSES.index(query.status)
    start = query.after if query.order == "index" else 0
    fits = (
        index
        for index in range(start, len(lines.status))
        if (
            lines.status[index] == status if status is not None else lines.status[index]
        )
    )
    if query.order == "index":
        found = list(islice(fits, query.limit + 1))
        if len(found) > query.limit:
            return found[:-1], found[-1]
        return found, None
    end = min(query.after + query.limit, MAX_SORTED)
    key = _keys(lines)[query.order]
    ranked = nlargest(end + 1, fits, key)
    more = len(ranked) > end and end < MAX_SORTED
    return ranked[query.after : end], end if more else None


def _keys(lines: LoopLines) -> dict[str, Callable[[int], int]]:
    return {
        "time": lambda index: lines.first_seq[index],
        "duration": lambda index: lines.span(index) or 0,
    }


def _progress(lines: LoopLines, *, hides: bool) -> dict[str, JSON]:
    groups = sorted(lines.groups.values(), key=lambda group: -group.count)
    errors = [msgspec.to_builtins(group) for group in groups]
    if hides:
        errors = [{**group, "message": HIDDEN} for group in errors]
    return {
        "total": lines.total,
        "done": lines.done + lines.kept,
        "kept": lines.kept,
        "failed": lines.failed,
        "in_flight": lines.in_flight,
        "ended": lines.has_ended,
        "rate": lines.rate(),
        "eta_ms": lines.eta_ms(),
        "bucket_ms": lines.buckets.width,
        "buckets": [msgspec.to_builtins(each) for each in lines.buckets],
        "errors": errors,
    }


def _line(lines: LoopLines, index: int) -> dict[str, JSON]:
    return {
        "index": index,
        "status": STATUSES[lines.status[index]],
        "seq": lines.first_seq[index] or None,
        "done_seq": lines.last_seq[index] or None,
        "ms": lines.span(index),
        "at_ms": lines.begun[index],
        "attempts": lines.attempts[index],
    }
