"""What has become of executions: listings, documents, events, states."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence

import msgspec

from noetl.dialects.views import make_view
from noetl.dialects.views.correlation import fits
from noetl.engine.document import Document, state_document
from noetl.engine.events import Event
from noetl.engine.evolve import replay
from noetl.engine.state import ExecutionStatus, State
from noetl.engine.tracing import event_line
from noetl.engine.waits import WaitLine, waits_of
from noetl.errors import BlobGone, StoreError
from noetl.ports import Blobs, Store, Summary, summary_document
from noetl.runtime.live import PAGE, fold
from noetl.service.refusal import Refusal, no_execution
from noetl.types import JSON

SCANNED = 10_000
"""Lines that one listing looks at; if more are needed, its cursor goes on."""

LARGEST_PAGE = 4 * 1024 * 1024
"""Bytes after which a page of events ends."""
STEP = 100
"""Events of a page that are read at once."""

OPEN: tuple[ExecutionStatus, ...] = ("running", "waiting", "paused")
Visible = Callable[[Summary], bool]


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """Which executions; ``since`` is a time, ``path`` one playbook, or ``sales/*``."""

    status: ExecutionStatus | None = None
    path: str | None = None
    since: str | None = None

    def fits(self, summary: Summary) -> bool:
        if self.path is None:
            return True
        found = summary.playbook.get("path") or ""
        if self.path.endswith("/*"):
            return bool(found.startswith(self.path[:-1]))
        return bool(found == self.path)


class Page(msgspec.Struct, frozen=True):
    """``cursor`` goes on where this ends; None if there is no more."""

    executions: Sequence[Summary]
    cursor: str | None = None


def shown(document: Document, summary: Summary) -> dict[str, JSON]:
    """What is set aside is shown as far as its log can be read."""
    found = document.as_json()
    if summary.status == "quarantined":
        found["execution_id"], found["status"] = summary.execution_id, summary.status
        found["playbook"], found["error"] = summary.playbook, summary.error
        found["started_at"] = summary.started_at
    return found


class Looking:
    """Reads what is committed, and nothing else."""

    def __init__(self, store: Store, blobs: Blobs) -> None:
        self._store = store
        self._blobs = blobs

    async def summary(self, execution_id: str) -> Summary:
        """Raises ``Refusal`` (``execution.unknown``)."""
        try:
            return await self._store.summary(execution_id)
        except StoreError as error:
            if error.kind == "store.missing":
                raise no_execution() from None
            raise

    async def find(
        self,
        wanted: Filter,
        *,
        visible: Visible = lambda _: True,
        limit: int = 100,
        cursor: str | None = None,
    ) -> Page:
        """The newest first; ``visible`` says which of them whoever asks may see."""
        found: list[Summary] = []
        seen = 0
        while seen < SCANNED:
            size = min(max(limit + 1, 100), SCANNED - seen)
            page = await self._store.find(
                status=wanted.status, before=cursor, limit=size
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
        """Those that wait for something, and for what; the newest first.

        A page may have fewer than ``limit``: what runs may wait for nothing.
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
        page = _merged(pages, limit)
        waits: dict[str, list[WaitLine]] = {}
        for each in page.executions:
            found = waits_of(await fold(self._store, each.execution_id))
            if found:
                waits[each.execution_id] = found
        lines = [each for each in page.executions if each.execution_id in waits]
        return Page(lines, page.cursor), waits

    async def document(self, execution_id: str) -> dict[str, JSON]:
        """What ``noetl run --json`` prints."""
        document, summary = Document(), await self.summary(execution_id)
        try:
            async for page in self._pages(execution_id):
                document.take(page)
        except Exception:
            if summary.status != "quarantined":
                raise
        return shown(document, summary)

    async def source(self, execution_id: str) -> bytes:
        """The text of its playbook, as it was when it began. Raises ``BlobGone``."""
        [first] = await self._store.read(execution_id, limit=1)
        key = first.payload["playbook"].get("source")
        if key is None:
            raise BlobGone("there was no playbook")
        return await self._blobs.get(key)

    async def state(self, execution_id: str, at: int | None = None) -> dict[str, JSON]:
        """What the log adds up to at that event, or at its end."""
        state = State()
        async for page in self._pages(execution_id):
            replay(page if at is None else page[: at - state.seq], state)
            if state.seq == at:
                break
        if at is not None and state.seq < at:
            message = f"there is no event {at} yet: the log has 1 to {state.seq}"
            raise Refusal("query.invalid", message, parameter="at")
        return state_document(state)

    async def events(
        self, execution_id: str, *, after: int, limit: int
    ) -> Sequence[Event]:
        return await self._store.read(execution_id, after=after, limit=limit)

    async def trace(self, execution_id: str) -> str:
        [first] = await self._store.read(execution_id, limit=1)
        trace: str = first.payload["trace_id"]
        return trace

    async def lines(
        self, execution_id: str, *, after: int, limit: int
    ) -> tuple[list[bytes], int | None]:
        """Events as lines of JSON, and where the next page begins, None if there is
        none. A page ends before ``limit`` if it has ``LARGEST_PAGE`` bytes."""
        trace = await self.trace(execution_id)
        found: list[bytes] = []
        size = 0
        while len(found) < limit and size < LARGEST_PAGE:
            some = min(STEP, limit - len(found))
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
        """Events as a dialect shows them, those that have the ids that are asked for.

        Also where the next page begins, None if this is the last one. A view needs
        the events before ``after``, too: they are read, and not given.
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
        """The transient variables: those it began with, and what steps have set."""
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
        while page := await self._store.read(execution_id, after=after, limit=PAGE):
            yield page
            after = page[-1].seq
        if after == 0:
            raise no_execution()


def waiting_document(
    summary: Summary, waits: dict[str, list[WaitLine]]
) -> dict[str, JSON]:
    """The line of a listing, with what the execution waits for."""
    found = waits[summary.execution_id]
    return {**summary_document(summary), "waits": msgspec.to_builtins(found)}


def _merged(pages: Sequence[Page], limit: int) -> Page:
    """The newest of all; not beyond the end of any that goes on."""
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
