"""Queries on executions: listings, documents, events and states."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence

import msgspec

from noetl.dialects.views import make_view
from noetl.dialects.views.formal import fits
from noetl.engine.event_codec import event_line
from noetl.engine.events import Event, ExecutionRequested
from noetl.engine.evolve import replay
from noetl.engine.execution_document import Document, state_document
from noetl.engine.state import ExecutionStatus, State
from noetl.engine.waits.resume import WaitLine, waits_of
from noetl.errors import BlobGone, StoreError
from noetl.ports import Blobs, ExecutionHistory, Summary, summary_document
from noetl.runtime.executions.loaded import EVENTS_PER_READ, fold
from noetl.service.errors import RequestRefused, no_execution
from noetl.types import JSON

MAX_SCANNED = 10_000
"""Index rows that one listing reads; its cursor continues after them."""

MAX_PAGE_BYTES = 4 * 1024 * 1024
"""Bytes after which a page of events ends."""
READ_BATCH = 100
"""Events that are read from the store at once for a page."""

OPEN: tuple[ExecutionStatus, ...] = ("running", "waiting", "paused")
Visible = Callable[[Summary], bool]


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """Filter of a listing: ``since`` is a Unix time, ``path`` a playbook or
    ``sales/*``; ``labels`` are those that an execution must have."""

    status: ExecutionStatus | None = None
    path: str | None = None
    since: str | None = None
    labels: dict[str, str] = {}

    def fits(self, summary: Summary) -> bool:
        if self.path is None:
            return True
        found = summary.playbook.get("path") or ""
        if self.path.endswith("/*"):
            return bool(found.startswith(self.path[:-1]))
        return bool(found == self.path)


class Page(msgspec.Struct, frozen=True):
    """A page of summaries; ``cursor`` continues after it and is None on the last
    page."""

    executions: Sequence[Summary]
    cursor: str | None = None


def shown(document: Document, summary: Summary) -> dict[str, JSON]:
    """Return the document; for a quarantined execution, its readable part."""
    found = document.as_json()
    if summary.status == "quarantined":
        found["execution_id"], found["status"] = summary.execution_id, summary.status
        found["playbook"], found["error"] = summary.playbook, summary.error
        found["started_at"] = summary.started_at
    return found


class ExecutionQueries:
    """Reads committed events and summaries; changes nothing."""

    def __init__(self, store: ExecutionHistory, blobs: Blobs) -> None:
        self._store = store
        self._blobs = blobs

    async def summary(self, execution_id: str) -> Summary:
        """Return the summary. Raises ``RequestRefused`` (``execution.unknown``)."""
        try:
            return await self._store.summary(execution_id)
        except StoreError as error:
            if error.kind == "store.missing":
                raise no_execution() from None
            raise

    async def caller(self, execution_id: str) -> dict[str, JSON]:
        """Return the record of the account or trigger that sent the request."""
        for first in await self._store.read(execution_id, limit=1):
            asked: ExecutionRequested = first.payload
            return asked.get("caller") or {}
        return {}  # it was removed in the meantime

    async def find(
        self,
        wanted: Filter,
        *,
        visible: Visible = lambda _: True,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page:
        """List executions, newest first, that match and for which ``visible`` is
        true."""
        found: list[Summary] = []
        seen = 0
        while seen < MAX_SCANNED:
            size = min(max(limit + 1, 100), MAX_SCANNED - seen)
            page = await self._store.find(
                status=wanted.status,
                before=cursor,
                limit=size,
                labels=wanted.labels,
            )
            for each in page:
                if wanted.since is not None and each.started_at < wanted.since:
                    return Page(found)
                if wanted.fits(each) and visible(each):
                    if len(found) == limit:
                        return Page(found, found[-1].execution_id if found else cursor)
                    found.append(each)
                cursor = each.execution_id
            seen += len(page)
            if len(page) < size:
                return Page(found)
        return Page(found, cursor)

    async def find_waiting(
        self,
        wanted: Filter,
        *,
        visible: Visible = lambda _: True,
        limit: int = 100,
        cursor: str | None = None,
    ) -> tuple[Page, dict[str, list[WaitLine]]]:
        """List executions that wait, newest first, with the waits of each.

        A page may hold fewer than ``limit`` executions, because a running execution may
        have no wait.
        """
        statuses = OPEN if wanted.status is None else (wanted.status,)
        pages = [
            await self.find(
                msgspec.structs.replace(wanted, status=status),
                visible=visible,
                limit=limit,
                cursor=cursor,
            )
            for status in statuses
        ]
        page = merge_pages(pages, limit)
        waits: dict[str, list[WaitLine]] = {}
        for each in page.executions:
            found = waits_of(await fold(self._store, each.execution_id))
            if found:
                waits[each.execution_id] = found
        lines = [each for each in page.executions if each.execution_id in waits]
        return Page(lines, page.cursor), waits

    async def document(self, execution_id: str) -> dict[str, JSON]:
        """Return the document that ``noetl run --json`` prints."""
        document, summary = Document(), await self.summary(execution_id)
        try:
            async for page in self._pages(execution_id):
                document.take(page)
        except Exception:
            if summary.status != "quarantined":
                raise
        return shown(document, summary)

    async def source(self, execution_id: str) -> bytes:
        """Return the playbook's source as it was at the start. Raises ``BlobGone``."""
        [first] = await self._store.read(execution_id, limit=1)
        asked: ExecutionRequested = first.payload
        key: str | None = asked["playbook"].get("source")
        if key is None:
            raise BlobGone("the execution has no playbook source")
        return await self._blobs.get(key)

    async def state(self, execution_id: str, at: int | None = None) -> dict[str, JSON]:
        """Return the state after the event ``at``, by default after the last event."""
        state = State()
        async for page in self._pages(execution_id):
            replay(page if at is None else page[: at - state.seq], state)
            if state.seq == at:
                break
        if at is not None and state.seq < at:
            message = f"event {at} does not exist: the log ends at {state.seq}"
            raise RequestRefused("query.invalid", message, parameter="at")
        return state_document(state)

    async def events(
        self, execution_id: str, *, after: int, limit: int
    ) -> Sequence[Event]:
        return await self._store.read(execution_id, after=after, limit=limit)

    async def trace(self, execution_id: str) -> str:
        [first] = await self._store.read(execution_id, limit=1)
        asked: ExecutionRequested = first.payload
        return asked["trace_id"]

    async def lines(
        self, execution_id: str, *, after: int, limit: int
    ) -> tuple[list[bytes], int | None]:
        """Return events as lines of JSON, and the start of the next page or None.

        A page ends early, before ``limit`` events, at ``MAX_PAGE_BYTES`` bytes.
        """
        trace = await self.trace(execution_id)
        found: list[bytes] = []
        size = 0
        while len(found) < limit and size < MAX_PAGE_BYTES:
            some = min(READ_BATCH, limit - len(found))
            events = await self.events(execution_id, after=after, limit=some)
            lines = [event_line(event, trace) for event in events]
            found += lines
            size += sum(map(len, lines))
            if len(events) < some:
                return found, None
            after = events[-1].seq
        return found, after

    async def view(
        self,
        execution_id: str,
        dialect: str,
        wanted: Mapping[str, str],
        *,
        after: int,
        limit: int,
    ) -> tuple[list[dict[str, JSON]], int | None]:
        """Return the events that have the ``wanted`` ids, as a dialect shows them.

        Also returns the start of the next page, or None on the last page. The view is
        computed from the start of the log; events up to ``after`` are not returned.
        """
        view = make_view(dialect)
        found: list[dict[str, JSON]] = []
        async for page in self._pages(execution_id):
            for event in page:
                documents = list(view.take(event))
                if event.seq <= after:
                    continue
                found += [each for each in documents if fits(event, each, wanted)]
                if len(found) >= limit:
                    return found, event.seq
        return found, None

    async def vars(self, execution_id: str) -> dict[str, JSON]:
        """Return the transient variables: initial values and those that steps have
        set."""
        state = State()
        async for page in self._pages(execution_id):
            replay(page, state)
        given = (state.workload.get("vars"), state.ctx.get("vars"))
        return {
            name: value
            for each in given
            if isinstance(each, dict)
            for name, value in each.items()
        }

    async def _pages(self, execution_id: str) -> AsyncIterator[Sequence[Event]]:
        after = 0
        while page := await self._store.read(
            execution_id, after=after, limit=EVENTS_PER_READ
        ):
            yield page
            after = page[-1].seq
        if after == 0:
            raise no_execution()


def waiting_document(
    summary: Summary, waits: dict[str, list[WaitLine]]
) -> dict[str, JSON]:
    """Return the line of a listing, with the waits of the execution."""
    found = waits[summary.execution_id]
    return {**summary_document(summary), "waits": msgspec.to_builtins(found)}


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
