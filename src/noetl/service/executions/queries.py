"""Queries on executions: listings, documents, events and states."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence

import msgspec

from noetl.dialects.views import make_view
from noetl.dialects.views.formal import fits
from noetl.engine.event_codec import event_line
from noetl.engine.events import Event, ExecutionRequested
from noetl.engine.execution_document import Document
from noetl.engine.state import ExecutionStatus, State
from noetl.engine.waits.resume import WaitLine, waits_of
from noetl.errors import BlobGone, StoreError
from noetl.ports import Blobs, ExecutionHistory, Summary, summary_document
from noetl.runtime.executions.loaded import EVENTS_PER_READ
from noetl.runtime.executions.snapshots import fold
from noetl.service.errors import no_execution
from noetl.service.executions.filters import Filter, Page, Tally, merge_pages
from noetl.types import JSON

MAX_SCANNED = 10_000
"""Index rows that one listing reads; its cursor continues after them."""

MAX_PAGE_BYTES = 4 * 1024 * 1024
"""Bytes after which a page of events ends."""
FIRST_SCAN = 200
"""Index rows that a listing reads at first; each further read has twice as many."""
MAX_CALLERS = 500
"""Executions of which one listing reads who started them."""
READ_BATCH = 100
"""Events that are read from the store at once for a page."""

OPEN: tuple[ExecutionStatus, ...] = ("running", "waiting", "paused")
Visible = Callable[[Summary], bool]


def _all(summary: Summary) -> bool:
    return True


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
        visible: Visible = _all,
        readable: Visible = _all,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page:
        """List executions, newest first, that match and for which ``visible`` is
        true.

        Errors are searched for texts where ``readable`` is true.
        """
        found: list[Summary] = []
        callers = MAX_CALLERS
        last = cursor
        async for each in self.scan(wanted, cursor):
            if each is None:
                return Page(found)
            if wanted.caller is not None and not callers:
                break
            if visible(each) and wanted.fits(each, readable=readable(each)):
                callers -= 1
                if wanted.caller in (None, await self._sender(wanted, each)):
                    if len(found) == limit:
                        return Page(found, found[-1].execution_id if found else last)
                    found.append(each)
            last = each.execution_id
        return Page(found, last)

    async def _sender(self, wanted: Filter, summary: Summary) -> str | None:
        """Return who started the execution, if the filter asks for it."""
        if wanted.caller is None:
            return None
        return (await self.caller(summary.execution_id)).get("principal")

    async def count(
        self, wanted: Filter, *, visible: Visible, readable: Visible
    ) -> dict[str, JSON]:
        """Count the executions that match by status and hour, the newest
        ``MAX_SCANNED`` at most; the caller of an execution is not looked at."""
        tally, scanned, complete = Tally(), 0, False
        async for each in self.scan(wanted, None):
            if each is None:
                complete = True
                break
            scanned += 1
            if visible(each) and wanted.fits(each, readable=readable(each)):
                tally.take(each)
        return {
            "by_status": dict(tally.by_status),
            "hours": tally.hours(),
            "scanned": scanned,
            "complete": complete,
        }

    async def scan(
        self, wanted: Filter, cursor: str | None = None
    ) -> AsyncIterator[Summary | None]:
        """Yield up to ``MAX_SCANNED`` executions of the statuses and labels, newest
        first, and None after the last one."""
        status = wanted.statuses[0] if len(wanted.statuses) == 1 else None
        seen, size = 0, FIRST_SCAN
        while seen < MAX_SCANNED:
            size = min(size, MAX_SCANNED - seen)
            page = await self._store.find(
                status=status, before=cursor, limit=size, labels=wanted.labels
            )
            for each in page:
                if wanted.since is not None and each.started_at < wanted.since:
                    yield None
                    return
                yield each
            if len(page) < size:
                yield None
                return
            seen += len(page)
            cursor, size = page[-1].execution_id, size * 2

    async def find_waiting(
        self,
        wanted: Filter,
        *,
        visible: Visible = _all,
        limit: int = 100,
        cursor: str | None = None,
    ) -> tuple[Page, dict[str, list[WaitLine]]]:
        """List executions that wait, newest first, with the waits of each.

        A page may hold fewer than ``limit`` executions, because a running execution may
        have no wait.
        """
        pages = [
            await self.find(
                msgspec.structs.replace(wanted, statuses=(status,)),
                visible=visible,
                limit=limit,
                cursor=cursor,
            )
            for status in wanted.statuses or OPEN
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

    async def length(self, execution_id: str) -> int:
        """Return the position of the last event."""
        return await self._store.length(execution_id)

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
        state = await self._last_state(execution_id)
        given = (state.workload.get("vars"), state.ctx.get("vars"))
        return {
            name: value
            for each in given
            if isinstance(each, dict)
            for name, value in each.items()
        }

    async def _last_state(self, execution_id: str) -> State:
        state = await fold(self._store, execution_id)
        if state.seq == 0:
            raise no_execution()
        return state

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
