"""Delivers executions that have ended to exports, at least once, from any server."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Mapping, Sequence

import msgspec

from noetl.engine.events import Event
from noetl.engine.times import seconds_of
from noetl.errors import NoetlError, StoreError
from noetl.ports import (
    Clock,
    Export,
    ExportFailed,
    ExportQueue,
    LogReader,
    Summary,
    TaskLogs,
    WaitingExports,
)
from noetl.ports.store import ExecutionHistory
from noetl.ports.task_logs import StoredChunk

log = logging.getLogger("noetl.exports")

BATCH = 100
"""Executions that a server takes from the queue at once."""
LEASE_S = 120.0
"""Seconds for which other servers leave them alone; a longer delivery is repeated."""
POLL_S = 1.0
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 60.0
"""Seconds until a receiver that does not answer is asked again: doubled each time."""
REFUSED_PAUSE_S = 3_600.0
"""Seconds until an execution that its receiver refuses is sent again."""
EVENTS_PER_PAGE = 250
"""Events that are folded at once, in some milliseconds."""
LONGEST_REST_S = 0.02
CHUNKS_PER_PAGE = 16


class StoredExecution:
    """An execution of a store, as exports read it."""

    def __init__(self, summary: Summary, history: LogReader, logs: TaskLogs) -> None:
        self.summary = summary
        self._history = history
        self._logs = logs

    async def pages(self) -> AsyncIterator[Sequence[Event]]:
        """Yield the events, and rest after each page for as long as it took: exports
        leave half of the processor to the other work of a server."""
        name, loop = self.summary.execution_id, asyncio.get_running_loop()
        async for page in self._history.pages(name, size=EVENTS_PER_PAGE):
            began = loop.time()
            yield page
            await asyncio.sleep(min(loop.time() - began, LONGEST_REST_S))

    async def logs(self) -> AsyncIterator[Sequence[StoredChunk]]:
        name, position = self.summary.execution_id, 0
        while True:
            chunks, following = await self._logs.read(
                name, start=position, limit=CHUNKS_PER_PAGE
            )
            if chunks:
                yield chunks
            if following == position:
                return
            position = following


class Delivered(msgspec.Struct):
    """Counts of executions and events that were delivered, and of failures."""

    executions: int = 0
    events: int = 0
    failures: int = 0


class ExportLoop:
    """Delivers the executions in the queue of one export."""

    def __init__(
        self,
        export: Export,
        queue: ExportQueue,
        history: ExecutionHistory,
        logs: TaskLogs,
        clock: Clock,
    ) -> None:
        self.export = export
        self.done = Delivered()
        self._queue = queue
        self._history = history
        self._logs = logs
        self._clock = clock
        self._pause = 0.0

    def take_counts(self) -> Delivered:
        """Return what was delivered since the last call."""
        done, self.done = self.done, Delivered()
        return done

    async def serve(self) -> None:
        """Deliver until cancelled."""
        while True:
            if not await self.deliver():
                await self._clock.sleep(max(self._pause, POLL_S))

    async def deliver(self) -> bool:
        """Deliver a batch; return True if it was delivered, and more may follow.

        An execution leaves the queue once its receiver has it. A server that is lost
        before that leaves it to others, who send it again.
        """
        now, name = self._clock.now(), self.export.name
        claimed = await self._queue.claim_exports(
            name, now=now, until=now + LEASE_S, limit=BATCH
        )
        if not claimed:
            self._pause = 0.0
            return False
        try:
            await self._take(claimed)
        except ExportFailed as error:
            if error.refused:
                return await self._take_each(claimed)
            self._fail(error)
            await self._postpone(claimed, self._pause)
            return False
        except asyncio.CancelledError:  # the server stops: others need not wait
            await self._postpone(claimed, 0.0)
            raise
        self._pause = 0.0
        return True

    async def _take(self, execution_ids: Sequence[str]) -> None:
        found = [
            StoredExecution(summary, self._history, self._logs)
            for each in execution_ids
            if (summary := await self._summary(each)) is not None
        ]
        try:
            events = await self.export.take(found)
        except NoetlError:
            raise
        except Exception as error:  # a defect holds one execution up, and no other
            reason = f"a defect ({type(error).__name__})"
            raise ExportFailed(reason, refused=True) from error
        self.done.events += events
        self.done.executions += len(found)
        await self._queue.end_exports(self.export.name, execution_ids)

    async def _take_each(self, execution_ids: Sequence[str]) -> bool:
        """Deliver executions one by one: the receiver refuses one of them.

        That one stays in the queue, and is sent again after an hour.
        """
        for number, each in enumerate(execution_ids):
            try:
                await self._take([each])
            except ExportFailed as error:
                if not error.refused:
                    self._fail(error)
                    await self._postpone(execution_ids[number:], self._pause)
                    return False
                self.done.failures += 1
                about = {"execution_id": each, "export": self.export.name}
                cause = error.__cause__
                log.error(
                    "an execution is refused: %s", error, extra=about, exc_info=cause
                )
                await self._postpone([each], REFUSED_PAUSE_S)
        self._pause = 0.0
        return True

    async def _summary(self, execution_id: str) -> Summary | None:
        try:
            return await self._history.summary(execution_id)
        except StoreError as error:
            if error.kind != "store.missing":
                raise
            return None  # it has been removed

    def _fail(self, error: ExportFailed) -> None:
        self.done.failures += 1
        longer = self._pause * 2 or FIRST_PAUSE_S
        self._pause = min(longer, LONGEST_PAUSE_S)
        about = {"export": self.export.name}
        log.warning("%s; sent again in %g s", error, self._pause, extra=about)

    async def _postpone(self, execution_ids: Sequence[str], seconds: float) -> None:
        until = self._clock.now() + seconds
        await self._queue.postpone_exports(self.export.name, execution_ids, until=until)


class Exports:
    """All exports of a server."""

    def __init__(
        self,
        exports: Sequence[Export],
        queue: ExportQueue,
        history: ExecutionHistory,
        logs: TaskLogs,
        clock: Clock,
    ) -> None:
        self.loops = [ExportLoop(each, queue, history, logs, clock) for each in exports]
        self._queue = queue
        self._history = history
        self._clock = clock

    async def waiting(self) -> Mapping[str, WaitingExports]:
        """Return what waits for the exports of this server. Raises ``StoreError``."""
        if not self.loops:
            return {}
        found = await self._queue.count_exports()
        nothing = WaitingExports(0, "")
        names = [each.export.name for each in self.loops]
        return {name: found.get(name, nothing) for name in names}

    async def lag(self, waiting: WaitingExports) -> float:
        """Return the seconds since the execution ended that has waited longest, of
        those in the order in which they began. Raises ``StoreError``."""
        if not waiting.waiting:
            return 0.0
        summary = await self._history.summary(waiting.oldest)
        ended = summary.finished_at
        return 0.0 if ended is None else max(0.0, self._clock.now() - seconds_of(ended))

    async def close(self) -> None:
        for each in self.loops:
            await each.export.close()
