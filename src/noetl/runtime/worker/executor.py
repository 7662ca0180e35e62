"""The executor of a worker: claims pipelines, runs them in its slots, renews leases."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Collection, Mapping, Sequence

import msgspec

from noetl.engine.limits import TOOL_TIME
from noetl.engine.reports.accept import Fact, OutOfOrder
from noetl.errors import LeaseLost, Refused, SetAside
from noetl.ports import Clock, Lease, Tool
from noetl.runtime.dispatcher import Dispatcher, TaskValues, WorkItem
from noetl.runtime.executions.quarantine import number_of
from noetl.runtime.worker.pipeline_run import PipelineRun
from noetl.runtime.worker.task_output import LogSender
from noetl.runtime.worker.tool_call import (
    RunningCall,
    about_lease,
    complain,
    is_passing,
    is_stop,
    last_facts,
)

log = logging.getLogger("noetl.worker")

RENEWALS_PER_LEASE = 3
"""Renewals of a lease within its lifetime."""

WAITS = 16
"""Pipelines that only wait, which a worker runs outside of its slots (S-79)."""

LOOK_FOR_WAITS_S = 0.25
"""Seconds between two claims of a busy worker for pipelines that need no slot."""

CLAIM_RETRY_S = 1.0
"""Seconds until work is claimed again after a claim that failed."""

MAX_END_WAIT_S = 1.0
"""Seconds for which a claimed command waits for the end of its earlier run, if that is
a tenth of its lease or less."""


class SlotUse(msgspec.Struct, frozen=True):
    """The commands that an executor runs, and how many of its slots are busy."""

    commands: Collection[str]
    busy: int
    slots: int


class Executor:
    """A pool of slots, each of which runs one pipeline at a time.

    ``tool_time`` is the operator's limit of one call, in seconds. ``logs`` stores what
    tasks print. ``calls`` are the running calls of tools by command.

    While all slots are busy, pipelines that only wait run outside of them.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        tools: Mapping[str, Tool],
        clock: Clock,
        *,
        owner: str,
        slots: int,
        tool_time: float = TOOL_TIME,
        logs: LogSender | None = None,
    ) -> None:
        self._dispatcher = dispatcher
        self._wakeup = dispatcher.wakeup.listen()
        self.tools = tools
        self.clock = clock
        self.owner = owner
        self._slots = slots
        self.tool_time = tool_time
        self.logs = logs
        self._running: set[asyncio.Task[None]] = set()
        self._waiting: set[asyncio.Task[None]] = set()
        self._outside: set[str] = set()
        self._entering = 0
        self._freed = asyncio.Event()
        self._works: dict[str, WorkItem] = {}
        self._awaited: dict[str, asyncio.Future[None]] = {}
        self.calls: dict[str, RunningCall] = {}
        self._lost: set[Lease] = set()
        self._broken: BaseException | None = None
        self._retired = self._serving = False
        self._beating: asyncio.Task[None] | None = None
        self._reserved = 0
        dispatcher.register(self)

    async def serve(self) -> None:
        """Run work until cancelled; a wake-up says that there may be some.

        With several executions, neither a failed claim nor an error of one pipeline
        stops the others (I-38).
        """
        waits = asyncio.create_task(self._serve_waits())
        self._serving = True
        try:
            while True:
                if self._broken is not None:
                    broken, self._broken = self._broken, None
                    raise broken
                self._wakeup.clear()
                try:
                    claimed = await self._claim()
                except Exception as error:
                    if self._is_alone or isinstance(error, Refused):
                        raise
                    complain(log, "work could not be claimed", error)
                    await self.clock.sleep(CLAIM_RETRY_S)
                    continue
                if not claimed:
                    await self._wakeup.wait()
        finally:
            self._serving = False
            waits.cancel()
            if self._beating is not None:
                self._beating.cancel()
                self._beating = None
            await self._stop()

    async def _claim(self) -> bool:
        """Start ready pipelines; return whether there were any."""
        free = 0 if self._retired else self._free
        if free <= 0:
            return False
        works = await self._dispatcher.claim(self.owner, free)
        for work in await self._sort_out(works):
            self._begin(work)
        return bool(works)

    async def _serve_waits(self) -> None:
        """Run pipelines that need no slot while all slots are busy."""
        while True:
            await self.clock.sleep(LOOK_FOR_WAITS_S)
            is_busy = self._free <= 0 and not self._retired
            room = WAITS - len(self._waiting) if is_busy else 0
            works: Sequence[WorkItem] = []
            if room > 0:
                try:
                    found = await self._dispatcher.claim(self.owner, room, waits=True)
                    works = await self._sort_out(found)
                except Exception as error:  # the claim of the next free slot says more
                    complain(log, "work could not be claimed", error)
            for work in works:
                self._begin(work, outside=True)

    async def enter(self, lease: Lease) -> None:
        """Wait for a slot if the pipeline of this lease runs outside of them."""
        if lease.command_id not in self._outside:
            return
        self._entering += 1
        try:
            while self._free + self._entering <= 0:
                self._freed.clear()
                await self._freed.wait()
        finally:
            self._entering -= 1
        task = asyncio.current_task()
        assert task is not None
        self._outside.discard(lease.command_id)
        self._waiting.discard(task)
        self._running.add(task)
        self._note_slots()

    @property
    def _is_alone(self) -> bool:
        """Return whether this process runs one execution, which gets its errors."""
        return self._dispatcher.is_alone

    def reserve(self) -> str | None:
        if self._retired or not self._serving or self._free <= 0:
            return None
        self._reserved += 1
        return self.owner

    def take(self, work: WorkItem | None) -> None:
        self._reserved -= 1
        if work is not None:
            self._begin(work)
        else:
            self._note_slots()
            self._wakeup.set()

    @property
    def _free(self) -> int:
        taken = len(self._running) + self._reserved + self._entering
        return self._slots - taken

    def _note_slots(self) -> None:
        """Let the next pipeline that runs outside of the slots into a free one."""
        if self._free + self._entering > 0:
            self._freed.set()

    def _begin(self, work: WorkItem, *, outside: bool = False) -> None:
        task = asyncio.create_task(self._work(work))
        if outside:
            self._waiting.add(task)
            self._outside.add(work.lease.command_id)
        else:
            self._running.add(task)
        task.add_done_callback(self._finished)
        if self._beating is None and self._serving:
            # The answer with the first work says how long a lease lasts.
            self._beating = asyncio.create_task(self._beat())
        self._note_slots()

    async def _sort_out(self, works: Sequence[WorkItem]) -> Sequence[WorkItem]:
        """Wait for earlier runs of these commands, and drop leases of commands that
        still run: a command never runs twice at a time in this process.

        An earlier run has lost its lease and stops its tool, or it has just reported
        a wait that was over at once, and has not seen the answer yet.
        """
        early = [work.lease for work in works if work.lease.command_id in self._works]
        if not early:
            return works
        self._lose([self._works[lease.command_id].lease for lease in early])
        ends = [asyncio.get_running_loop().create_future() for _ in early]
        for lease, end in zip(early, ends, strict=True):
            self._awaited[lease.command_id] = end
        timeout = min(MAX_END_WAIT_S, self._dispatcher.ttl / 10)
        await asyncio.wait(ends, timeout=timeout)
        late = [lease for lease in early if lease.command_id in self._works]
        for lease in late:
            self._awaited.pop(lease.command_id, None)
        if late:
            await self._dispatcher.release(late)
            if running := self._tasks:
                await asyncio.wait(running, timeout=1.0, return_when="FIRST_COMPLETED")
        return [work for work in works if work.lease not in late]

    async def retire(self) -> None:
        """Take no more work, and wait for the running pipelines."""
        self._retired = True
        self._note_slots()
        await self.drain()

    @property
    def use(self) -> SlotUse:
        """Return which commands run now."""
        return SlotUse(self._works.keys(), len(self._running), self._slots)

    @property
    def leases(self) -> list[Lease]:
        """Return the leases of the running pipelines."""
        return [work.lease for work in self._works.values()]

    async def drain(self) -> None:
        """Wait until the running pipelines have stopped."""
        while tasks := self._tasks:
            await asyncio.wait(tasks)

    @property
    def _tasks(self) -> set[asyncio.Task[None]]:
        return self._running | self._waiting

    def revoke(self, commands: Sequence[str]) -> None:
        """Stop the tools of pipelines that have ended or moved to another worker."""
        for command_id in commands:
            if command_id in self.calls:
                self.calls[command_id].stop()

    def stop(self, execution_id: str) -> None:
        """Stop the tools of an execution: their attempts end as ``cancelled``."""
        for command_id, work in self._works.items():
            if work.lease.execution_id == execution_id and command_id in self.calls:
                self.calls[command_id].stop()

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._waiting.discard(task)
        self._note_slots()
        error = None if task.cancelled() else task.exception()
        if error is not None and self._is_alone:
            self._broken = error  # do not wait for it
        elif error is not None:
            complain(log, "a pipeline was left", error)
        self._wakeup.set()

    async def _stop(self) -> None:
        tasks = self._tasks
        for task in tasks:
            task.cancel()
        for task in tasks:
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await task

    async def _beat(self) -> None:
        """Renew all leases in one call, and stop the pipelines of lost ones (I-19)."""
        while True:
            await self.clock.sleep(self._dispatcher.ttl / RENEWALS_PER_LEASE)
            if leases := self.leases:
                try:
                    self._lose(await self._dispatcher.renew(leases))
                except Exception as error:  # the next renewal may be in time
                    complain(log, "leases could not be renewed", error)

    def _lose(self, leases: Sequence[Lease]) -> None:
        """Stop the tools of lost leases, without an outcome.

        By now this worker may hold a later lease of the same command: its tool goes on.
        """
        running = {work.lease for work in self._works.values()}
        lost = [lease for lease in leases if lease in running]
        self._lost.update(lost)
        self.revoke([lease.command_id for lease in lost])

    async def _work(self, first: WorkItem) -> None:
        """Run pipelines in one slot; work that a report makes ready needs no claim."""
        work: WorkItem | None = first
        until = asyncio.get_running_loop().time() + self._dispatcher.time_slice
        while work is not None:
            lease, command_id = work.lease, work.lease.command_id
            step = work.frame.step
            self._works[command_id] = work
            if log.isEnabledFor(logging.DEBUG):
                log.debug("a pipeline begins", extra=about_lease(lease, step))
            try:
                work = await self._run(work, until)
            except (LeaseLost, OutOfOrder, SetAside) as error:
                log.info(
                    "gave up step %s: %s", step, error, extra=about_lease(lease, step)
                )
                work = None
            finally:
                del self._works[command_id]
                if self._awaited and (end := self._awaited.pop(command_id, None)):
                    end.set_result(None)
                self._outside.discard(command_id)
                self._lost.discard(lease)

    async def _run(self, work: WorkItem, until: float) -> WorkItem | None:
        """Run one pipeline as far as possible; return the work of its last report while
        the slot's time slice lasts.
        """
        facts: list[Fact] = []
        values: TaskValues | None = None
        try:
            values = await self._dispatcher.values_for(work)
            run = PipelineRun(self, self._dispatcher, work, values, until, facts)
            return await run.follow()
        except (LeaseLost, OutOfOrder, SetAside):
            raise
        except BaseException as error:
            if is_stop(error):
                raise
            await self._end(work, facts, error)
            return None
        finally:
            if values is not None:
                await values.close()

    async def _end(
        self, work: WorkItem, facts: Sequence[Fact], error: BaseException
    ) -> None:
        """End a pipeline that cannot continue: release it, or report it as failed."""
        lease = work.lease
        about = about_lease(lease, work.frame.step)
        if is_passing(error):
            if self._is_alone:
                raise error
            complain(log, f"step {work.frame.step} waits", error, about)
            await self._dispatcher.release([lease])
            return
        about["defect"] = number_of(error)
        log.error("a pipeline met a defect", extra=about, exc_info=error)
        last = last_facts(work, facts, error, self.clock.now())
        await self._dispatcher.report(lease, last)

    # -- asked by the runs of its pipelines ----------------------------------------

    def prefetches(self, lease: Lease) -> bool:
        """Return whether the slot of this lease takes the next pipeline. Raises
        ``LeaseLost`` if the lease is lost."""
        if lease in self._lost:
            raise LeaseLost(f"{self.owner} does not hold {lease.command_id}")
        if lease.command_id in self._outside:
            return False
        return not self._retired and len(self._running) <= self._slots
