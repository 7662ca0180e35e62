"""Filters of listings of executions, and the counts of what they leave."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

import msgspec

from noetl.engine.state import ExecutionStatus
from noetl.ports import Summary
from noetl.types import JSON

MAX_HOURS = 720
"""Hours that a count tells apart: the newest ones."""
_HOUR = len("2026-01-31T23")


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """What a listing is about; members that are not set let all executions pass.

    ``path`` is a playbook or ``sales/*``; ``labels`` are those that an execution must
    have. Executions began at ``since`` or later, and before ``until``. ``text`` is a
    part of the id, the playbook, a label, the trigger or the error, in any case.
    ``trigger`` and ``caller`` are the names of who started it, ``parent`` is the
    execution that called it; ``roots`` are executions that none called.
    """

    statuses: tuple[ExecutionStatus, ...] = ()
    path: str | None = None
    since: str | None = None
    until: str | None = None
    text: str | None = None
    trigger: str | None = None
    caller: str | None = None
    parent: str | None = None
    roots: bool = False
    labels: dict[str, str] = {}

    def fits(self, summary: Summary, *, readable: bool = True) -> bool:
        """Check all but the caller, whom the summary does not name.

        The data of an execution that is not ``readable`` are not searched: a hit would
        tell them.
        """
        return (
            (not self.statuses or summary.status in self.statuses)
            and (self.path is None or _is_at(summary, self.path))
            and (self.until is None or summary.started_at < self.until)
            and (self.parent is None or summary.parent_id == self.parent)
            and not (self.roots and summary.parent_id is not None)
            and (self.trigger is None or _trigger_of(summary) == self.trigger)
            and (self.text is None or self.text.casefold() in _text(summary, readable))
        )


def _is_at(summary: Summary, path: str) -> bool:
    found: str = summary.playbook.get("path") or ""
    return found.startswith(path[:-1]) if path.endswith("/*") else found == path


def _trigger_of(summary: Summary) -> JSON:
    return (summary.trigger or {}).get("name")


def _text(summary: Summary, readable: bool) -> str:
    playbook, error = summary.playbook, summary.error or {}
    labels = (f"{name}={value}" for name, value in summary.labels.items())
    parts = [summary.execution_id, playbook.get("path"), playbook.get("version")]
    parts += [*labels, _trigger_of(summary), error.get("kind"), error.get("step")]
    if readable:
        parts.append(error.get("message"))
    return "\n".join(str(each) for each in parts if each is not None).casefold()


class Page(msgspec.Struct, frozen=True):
    """A page of summaries; ``cursor`` continues after it and is None on the last
    page."""

    executions: Sequence[Summary]
    cursor: str | None = None


def merge_pages(pages: Sequence[Page], limit: int) -> Page:
    """Merge pages, newest first, up to the end of the shortest page that has a
    successor."""
    ends = [page.cursor for page in pages if page.cursor is not None]
    found = sorted(
        (each for page in pages for each in page.executions),
        key=lambda each: each.execution_id,
        reverse=True,
    )
    end = max(ends, default=None)
    if end is not None:
        found = [each for each in found if each.execution_id >= end]
    if len(found) > limit:
        return Page(found[:limit], found[limit - 1].execution_id)
    return Page(found, end)


class Tally:
    """Counts executions by status, and by the hour in which they began."""

    def __init__(self) -> None:
        self.by_status: Counter[str] = Counter()
        self._hours: defaultdict[str, Counter[str]] = defaultdict(Counter)

    def take(self, summary: Summary) -> None:
        """Count an execution; they come newest first."""
        self.by_status[summary.status] += 1
        hour = summary.started_at[:_HOUR]
        if hour in self._hours or len(self._hours) < MAX_HOURS:
            self._hours[hour][summary.status] += 1

    def hours(self) -> list[dict[str, JSON]]:
        """Return the hours in which executions began, the newest first."""
        return [
            {"at": f"{hour}:00:00Z", "counts": dict(counts)}
            for hour, counts in self._hours.items()
        ]
