"""The worker's heart: claim, run pipelines, report, keep the leases."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping, Sequence
from functools import partial

import msgspec

from noetl.engine.outcome import Meta, Outcome
from noetl.engine.pipeline import Call, Ended, Pipeline, Wait
from noetl.engine.references import WORKER_LIMIT, Values
from noetl.engine.reports import Fact, OutOfOrder, fit_facts
from noetl.errors import LeaseLost, Refused, SetAside, Unloaded
from noetl.ports import Clock, Lease, Tool
from noetl.runtime.defects import describe, is_passing, is_stop, last_facts
from noetl.runtime.dispatch import Dispatcher, Shelf
from noetl.runtime.drafts import CallDrafts
from noetl.runtime.invocation import Calling, Invocation, meta_of, tool_call
from noetl.runtime.live import Answer, Work
from noetl.runtime.quarantine import number_of
from noetl.runtime.turns import Turns
from noetl.types import JSON

log = logging.getLogger("noetl.worker")

BEATS = 3
"""How often a lease is renewed in the time that it lasts."""

SUSPEND_AFTER = 1.0
"""Seconds from which a retry's delay is not worth a slot: a commit costs less."""

RETRY = 1.0
"""Seconds until work is claimed again after a claim that failed."""

BUFFERED = 64
"""Facts that a pipeline without effects may keep to itself: what is lost is redone."""


class Executor:
    """A pool of slots. Each takes one pipeline at a time, task after task."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        tools: Mapping[str, Tool],
        clock: Clock,
        *,
        owner: str,
        slots: int,
    ) -> None:
        self._dispatcher = dispatcher
        self._bell = dispatcher.bell.listen()
        self._tools = tools
        self._clock = clock
        self._owner = owner
        self._slots = slots
        self._running: set[asyncio.Task[None]] = set()
        self._works: dict[str, Work] = {}
        self._calls: dict[str, Calling] = {}
        self._lost: set[Lease] = set()
        self._broken: BaseException | None = None
        self._retired = self._serving = False
        self._reserved = 0
        dispatcher.employ(self)

    async def serve(self) -> None:
        """Take work until cancelled; the bell rings when there may be some.

        Of several executions no one ends this: neither a claim that fails nor what a
        pipeline raises stops the others (I-38).
        """
        beating = asyncio.create_task(self._beat())
        self._serving = True
        try:
            while True:
                if self._broken is not None:
                    broken, self._broken = self._broken, None
                    raise broken
                self._bell.clear()
                try:
                    claimed = await self._claim()
                except Exception as error:
                    if self._is_alone or isinstance(error, Refused):
                        raise
                    _complain("work could not be claimed", error)
                    await self._clock.sleep(RETRY)
                    continue
                if not claimed:
                    await self._bell.wait()
        finally:
            self._serving = False
            beating.cancel()
            await self._stop()

    async def _claim(self) -> bool:
        """Begin what is ready; whether there was anything."""
        free = 0 if self._retired else self._free
        if free <= 0:
            return False
        works = await self._dispatcher.claim(self._owner, free)
        for work in await self._sort_out(works):
            self._begin(work)
        return bool(works)

    @property
    def _is_alone(self) -> bool:
        """Whether this process works for one execution, which learns of its errors."""
        return self._dispatcher.turn is None

    def reserve(self) -> str | None:
        if self._retired or not self._serving or self._free <= 0:
            return None
        self._reserved += 1
        return self._owner

    def take(self, work: Work | None) -> None:
        self._reserved -= 1
        if work is not None:
            self._begin(work)
        else:
            self._bell.set()

    @property
    def _free(self) -> int:
        return self._slots - len(self._running) - self._reserved

    def _begin(self, work: Work) -> None:
        task = asyncio.create_task(self._work(work))
        self._running.add(task)
        task.add_done_callback(self._finished)

    async def _sort_out(self, works: Sequence[Work]) -> Sequence[Work]:
        """Without those whose earlier run has lost its lease and is not yet stopped:
        of one command nothing is done twice at the same time, not even here."""
        early = [work.lease for work in works if work.lease.command_id in self._works]
        if early:
            names = [lease.command_id for lease in early]
            self._lose([self._works[name].lease for name in names])
            await self._dispatcher.release(early)
            if running := set(self._running):
                await asyncio.wait(running, timeout=1.0, return_when="FIRST_COMPLETED")
        return [work for work in works if work.lease not in early]

    async def retire(self) -> None:
        """Take nothing more, and wait for the pipelines that are under way."""
        self._retired = True
        await self.drain()

    @property
    def leases(self) -> list[Lease]:
        """Of the pipelines that are under way."""
        return [work.lease for work in self._works.values()]

    async def drain(self) -> None:
        """Wait until what is under way has come to a halt."""
        while self._running:
            await asyncio.wait(set(self._running))

    def revoke(self, commands: Sequence[str]) -> None:
        """These pipelines are over, or somebody else's: stop their tools."""
        for command_id in commands:
            if command_id in self._calls:
                self._calls[command_id].stop()

    def stop(self, execution_id: str) -> None:
        """Stop the tools of an execution: their attempts end as ``cancelled``."""
        for command_id, work in self._works.items():
            if work.lease.execution_id == execution_id and command_id in self._calls:
                self._calls[command_id].stop()

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None and self._is_alone:
            self._broken = error  # never hang on it
        elif error is not None:
            _complain("a pipeline was left", error)
        self._bell.set()

    async def _stop(self) -> None:
        for task in self._running:
            task.cancel()
        for task in list(self._running):
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await task

    async def _beat(self) -> None:
        """Renew all leases in one call; whoever lost one stops (I-19)."""
        while True:
            await self._clock.sleep(self._dispatcher.ttl / BEATS)
            if leases := self.leases:
                try:
                    self._lose(await self._dispatcher.renew(leases))
                except Exception as error:  # the next beat may be in time
                    _complain("leases could not be renewed", error)

    def _lose(self, leases: Sequence[Lease]) -> None:
        """Stop their tools; that they were stopped is nobody's outcome."""
        self._lost.update(leases)
        self.revoke([lease.command_id for lease in leases])

    async def _work(self, first: Work) -> None:
        """A slot's life: what a report made ready is taken without a claim."""
        work: Work | None = first
        turn, loop = self._dispatcher.turn, asyncio.get_running_loop()
        until = None if turn is None else loop.time() + turn
        while work is not None:
            lease, command_id = work.lease, work.lease.command_id
            step = work.frame.step
            self._works[command_id] = work
            try:
                work = await self._run(work, until)
            except (LeaseLost, OutOfOrder, SetAside) as error:
                log.info("gave up step %s of %s: %s", step, lease.execution_id, error)
                work = None
            finally:
                del self._works[command_id]
                self._lost.discard(lease)

    async def _run(self, work: Work, until: float | None) -> Work | None:
        """One pipeline, as far as it goes now; the work that its last report gave, if
        the slot's turn is not over."""
        facts: list[Fact] = []
        try:
            return await self._pursue(work, until, facts)
        except (LeaseLost, OutOfOrder, SetAside):
            raise
        except BaseException as error:
            if is_stop(error):
                raise
            await self._end(work, facts, error)
            return None

    async def _end(
        self, work: Work, facts: Sequence[Fact], error: BaseException
    ) -> None:
        """End a pipeline that cannot go on: later, or as one that failed."""
        lease = work.lease
        if is_passing(error):
            if self._is_alone:
                raise error
            _complain(f"step {work.frame.step} of {lease.execution_id} waits", error)
            await self._dispatcher.release([lease])
            return
        about = {"execution_id": lease.execution_id, "defect": number_of(error)}
        log.error("a pipeline met a defect", extra=about, exc_info=error)
        last = last_facts(work, facts, error, self._clock.now())
        await self._dispatcher.report(lease, last)

    async def _pursue(
        self, work: Work, until: float | None, facts: list[Fact]
    ) -> Work | None:
        tasks = work.playbook.steps[work.frame.step].tasks
        values = Values(WORKER_LIMIT)
        pipeline = Pipeline(tasks, work.frame, work.progress, values, work.secrets)
        shelf = await self._dispatcher.shelf_of(work)
        try:
            turns = self._dispatcher.turns
            run = _Run(work, pipeline, values, shelf, until, facts, turns)
            return await self._follow(run)
        finally:
            await shelf.close()

    async def _follow(self, run: _Run) -> Work | None:
        work, pipeline, facts = run.work, run.pipeline, run.facts
        progress = pipeline.progress
        fresh = not progress.tasks and not progress.started and not work.begun
        if fresh and not work.frame.path:
            facts.append(Fact("step.started"))
        begun = work.begun
        while True:
            move = await run.next()
            if isinstance(move, Ended):
                return None
            if isinstance(move, Wait):
                answer = await self._pause(run, move.seconds)
            else:
                if not begun and not move.begun:
                    fact = Fact("task.started", move.task.label, move.attempt)
                    facts.append(fact)
                begun = False
                answer = await self._perform(run, move)
            if answer.stop:
                return answer.work
            if answer.ctx is not None:
                pipeline.renew(answer.ctx, spilled=answer.spilled)

    async def _pause(self, run: _Run, seconds: float) -> Answer:
        """Before a retry: a short delay is slept through, a long one holds no slot."""
        if seconds >= SUSPEND_AFTER:
            progress = run.pipeline.progress
            asked = {"on": "delay", "seconds": seconds}
            run.facts.append(
                Fact("task.suspended", progress.label, progress.attempt, asked)
            )
            return await self._flush(run, wants=True)
        answer = await self._flush(run)
        if not answer.stop:
            await self._clock.sleep(seconds)
        return answer

    async def _perform(self, run: _Run, call: Call) -> Answer:
        """One task: its call, its outcome, what the log is told and when."""
        outcome, work = call.outcome, run.work
        if outcome is None:
            asked = run.pipeline.suspension(call)
            if isinstance(asked, dict):
                label, attempt = call.task.label, call.attempt
                run.facts.append(Fact("task.suspended", label, attempt, asked))
                return await self._flush(run, wants=True)
            outcome = asked
        began = self._clock.now()
        if outcome is None and call.task.kind not in self._tools:
            outcome = Outcome.failed("tool.contract", _no_tool(call.task.kind))
        if outcome is None:
            drafts = CallDrafts(run.shelf, work.secrets)
            invocation = Invocation(
                self._tools[call.task.kind],
                tool_call(work.frame, call, work.folder, drafts),
                self._dispatcher.tokens,
            )
            if invocation.has_effect:  # record before effect (I-17)
                answer = await self._flush(run)
                if answer.stop:
                    return answer
            if self._dispatcher.is_stopped(work.lease):
                outcome = Outcome.failed("cancelled", "the execution was cancelled")
            else:
                outcome = await self._invoke(run, invocation)
        meta = meta_of(work.frame, call, began, self._clock.now())
        payload = await run.take(outcome, meta)
        run.facts.append(Fact("task.done", call.task.label, call.attempt, payload))
        over = run.pipeline.progress.end is not None
        if over or payload.get("set_ctx") or len(run.facts) >= BUFFERED:
            return await self._flush(run, wants=over)
        return Answer()

    async def _invoke(self, run: _Run, invocation: Invocation) -> Outcome:
        if invocation.tool.instant:
            return await invocation.run()
        command_id = run.work.lease.command_id
        call = self._calls[command_id] = Calling(lambda: self._flush(run))
        try:
            return await call.result(invocation)
        finally:
            del self._calls[command_id]

    async def _flush(self, run: _Run, *, wants: bool = False) -> Answer:
        """Report what is not reported yet."""
        if not run.facts:
            return Answer()
        lease = run.work.lease
        if lease in self._lost:
            raise LeaseLost(f"{self._owner} does not hold {lease.command_id}")
        facts, run.facts[:] = list(run.facts), []
        wants = wants and run.in_turn and not self._retired
        wants = wants and len(self._running) <= self._slots
        owner = self._owner if wants else None
        fitted, blobs = fit_facts(facts)
        for body in blobs.values():  # stored before anybody names them (I-35)
            await run.shelf.put(body)
        return await self._dispatcher.report(lease, fitted, wants=owner)


def _complain(what: str, error: BaseException) -> None:
    """Log it, with its traceback if it is a defect."""
    if is_passing(error):
        log.warning("%s: %s", what, describe(error))
    else:
        log.error(what, extra={"defect": number_of(error)}, exc_info=error)


def _no_tool(kind: str) -> str:
    return (
        f"this worker has no tool of kind '{kind}': name its plug-in in the setting "
        "plugins, or run the step in a pool whose workers have it"
    )


class _Run(msgspec.Struct):
    """A pipeline under way; ``facts`` are those that nobody was told of yet. It is its
    slot's turn ``until`` then, or for as long as there is something."""

    work: Work
    pipeline: Pipeline
    values: Values
    shelf: Shelf
    until: float | None
    facts: list[Fact]
    turns: Turns

    @property
    def in_turn(self) -> bool:
        return self.until is None or asyncio.get_running_loop().time() < self.until

    async def next(self) -> Call | Wait | Ended:
        while True:
            try:
                return await self.turns.take(self.pipeline.next)
            except Unloaded as needed:
                await self.shelf.supply(needed.references, self.values)

    async def take(self, outcome: Outcome, meta: Meta) -> dict[str, JSON]:
        while True:
            try:
                return await self.turns.take(partial(self.pipeline.take, outcome, meta))
            except Unloaded as needed:
                await self.shelf.supply(needed.references, self.values)
