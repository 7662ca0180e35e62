"""One run of a pipeline in a slot: calls its tools, and reports its facts."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Protocol, TypeVar

import msgspec

from noetl.dsl.rates import LIMITS
from noetl.engine.reports.accept import Fact, fit_facts
from noetl.engine.tasks.outcome import Outcome
from noetl.engine.tasks.pipeline import Call, Ended, Pipeline, Wait
from noetl.engine.values.references import WORKER_LIMIT, Values
from noetl.engine.waits.suspend import SUSPENDING
from noetl.errors import Unloaded
from noetl.ports import CallLimit, Clock, Lease, LogSource, Tool
from noetl.runtime.dispatcher import Dispatcher, ReportAnswer, TaskValues, WorkItem
from noetl.runtime.worker.result_writer import CallDrafts
from noetl.runtime.worker.task_output import LogSender, TaskOutput
from noetl.runtime.worker.tool_call import (
    Invocation,
    RunningCall,
    limits_of,
    meta_of,
    time_limit,
    tool_call,
)
from noetl.types import JSON

T = TypeVar("T")

SUSPEND_AFTER_S = 1.0
"""Seconds of retry delay from which the slot is freed: a commit costs less."""

ASK_AGAIN_S = 0.05
"""Seconds up to which a call waits in its slot for its rate: a commit takes as long."""

MAX_UNREPORTED_FACTS = 64
"""Facts that a pipeline without effects may leave unreported: lost ones are redone."""


class Slots(Protocol):
    """The executor, as a run of a pipeline sees it."""

    owner: str
    tools: Mapping[str, Tool]
    clock: Clock
    tool_time: float
    calls: dict[str, RunningCall]
    logs: LogSender | None

    async def enter(self, lease: Lease) -> None:
        """Wait for a slot if the pipeline of this lease runs outside of them."""
        ...

    def prefetches(self, lease: Lease) -> bool:
        """Return whether the slot of this lease takes the next pipeline. Raises
        ``LeaseLost`` if the lease is lost."""
        ...


class PipelineRun:
    """A running pipeline. ``facts`` are unreported; ``until`` is the end of its slot's
    time slice."""

    def __init__(
        self,
        slots: Slots,
        dispatcher: Dispatcher,
        work: WorkItem,
        stored: TaskValues,
        until: float,
        facts: list[Fact],
    ) -> None:
        self._slots = slots
        self._dispatcher = dispatcher
        self._work = work
        self._stored = stored
        self._until = until
        self._facts = facts
        self._values = Values(WORKER_LIMIT)
        tasks = work.playbook.steps[work.frame.step].tasks
        self._pipeline = Pipeline(
            tasks, work.frame, work.progress, self._values, work.secrets
        )

    async def follow(self) -> WorkItem | None:
        """Run the pipeline as far as possible; return the work of its last report."""
        work, pipeline, facts = self._work, self._pipeline, self._facts
        progress = pipeline.progress
        fresh = not progress.tasks and not progress.started and not work.begun
        fresh = fresh and progress.waiting is None  # its first call was not permitted
        if fresh and not work.frame.path:
            facts.append(Fact("step.started"))
        begun = work.begun
        while True:
            move = await self._in_turn(pipeline.next)
            if isinstance(move, Ended):
                return None
            if isinstance(move, Wait):
                answer = await self._pause(move.seconds)
            else:
                limits: Sequence[CallLimit] = ()
                if move.outcome is None and not LIMITS.isdisjoint(move.spec):
                    move, limits = self._limit(move)
                seconds = await self._permit(limits) if limits else 0.0
                if seconds > 0:
                    self._suspend({"on": "limit", "seconds": seconds})
                    return (await self._flush(wants=True)).work
                if not begun and not move.begun:
                    fact = Fact("task.started", move.task.label, move.attempt)
                    facts.append(fact)
                begun = False
                answer = await self._perform(move)
                if not answer.stop and any(not limit.interval for limit in limits):
                    answer = await self._free(answer)
            if answer.stop:
                return answer.work
            if answer.ctx is not None:
                pipeline.renew(answer.ctx, spilled=answer.spilled)

    async def _pause(self, seconds: float) -> ReportAnswer:
        """Wait for a retry: a short delay keeps the slot, a long one frees it."""
        if seconds >= SUSPEND_AFTER_S:
            self._suspend({"on": "delay", "seconds": seconds})
            return await self._flush(wants=True)
        answer = await self._flush()
        if not answer.stop:
            await self._slots.clock.sleep(seconds)
        return answer

    def _suspend(self, asked: dict[str, JSON]) -> None:
        progress = self._pipeline.progress
        fact = Fact("task.suspended", progress.label, progress.attempt, asked)
        self._facts.append(fact)

    def _limit(self, call: Call) -> tuple[Call, Sequence[CallLimit]]:
        """Return the limits of a call; a call with an outcome if a key is not valid."""
        work = self._work
        if call.task.kind in SUSPENDING or self._dispatcher.is_stopped(work.lease):
            return call, ()
        place = (work.playbook.path, work.frame.step, call.task.label)
        try:
            return call, limits_of(call.spec, place)
        except ValueError as error:
            failed = Outcome.failed("tool.contract", str(error))
            return msgspec.structs.replace(call, outcome=failed), ()

    async def _permit(self, limits: Sequence[CallLimit]) -> float:
        """Ask for a call; return the seconds until this may be asked again."""
        lease = self._work.lease
        await self._slots.enter(lease)
        while True:
            seconds = await self._dispatcher.permit(lease, limits)
            if not 0 < seconds < ASK_AGAIN_S:
                return seconds
            await self._slots.clock.sleep(seconds)

    async def _free(self, answer: ReportAnswer) -> ReportAnswer:
        """Report a call that had a slot, and give the slot back."""
        reported = await self._flush() if self._facts else answer
        if not reported.stop:
            await self._dispatcher.permit(self._work.lease, ())
        return reported

    async def _perform(self, call: Call) -> ReportAnswer:
        """Run one task: call its tool, record its facts and its outcome."""
        outcome, work, printed = call.outcome, self._work, None
        if outcome is None:
            asked = self._pipeline.suspension(call)
            if isinstance(asked, dict):
                label, attempt = call.task.label, call.attempt
                self._facts.append(Fact("task.suspended", label, attempt, asked))
                return await self._flush(wants=True)
            outcome = asked
        began = self._slots.clock.now()
        if outcome is None and call.task.kind not in self._slots.tools:
            outcome = Outcome.failed("tool.contract", _no_tool(call.task.kind))
        if outcome is None:
            tool = self._slots.tools[call.task.kind]
            if not tool.instant:
                await self._slots.enter(work.lease)
            drafts = CallDrafts(self._stored, work.secrets)
            output = None
            if self._slots.logs is not None and not tool.instant:
                source = partial(_source, work, call)
                output = TaskOutput(self._slots.logs, source, work.secrets)
            invocation = Invocation(
                tool,
                tool_call(work.frame, call, work.folder, drafts, output),
                self._dispatcher.tokens,
            )
            if invocation.has_effect:  # record before effect (I-17)
                answer = await self._flush()
                if answer.stop:
                    return answer
            if self._dispatcher.is_stopped(work.lease):
                outcome = Outcome.failed("cancelled", "the execution was cancelled")
            else:
                try:
                    outcome = await self._invoke(invocation)
                finally:  # also of a call that is stopped
                    if output is not None and output.written:
                        printed = await output.close()
        meta = meta_of(work.frame, call, began, self._slots.clock.now(), printed)
        payload = await self._in_turn(partial(self._pipeline.take, outcome, meta))
        self._facts.append(Fact("task.done", call.task.label, call.attempt, payload))
        over = self._pipeline.progress.end is not None
        if over or payload.get("set_ctx") or len(self._facts) >= MAX_UNREPORTED_FACTS:
            return await self._flush(wants=over)
        return ReportAnswer()

    async def _invoke(self, invocation: Invocation) -> Outcome:
        if invocation.tool.instant:
            return await invocation.run()
        command_id = self._work.lease.command_id
        limit = time_limit(invocation.call.spec, self._slots.tool_time)
        call = self._slots.calls[command_id] = RunningCall(self._flush, limit)
        try:
            return await call.result(invocation)
        finally:
            del self._slots.calls[command_id]

    async def _flush(self, *, wants: bool = False) -> ReportAnswer:
        """Report the unreported facts."""
        if not self._facts:
            return ReportAnswer()
        lease, slots = self._work.lease, self._slots
        has_time = self._has_time
        may_prefetch = slots.prefetches(lease) and has_time
        facts, self._facts[:] = list(self._facts), []
        owner = slots.owner if wants and may_prefetch else None
        fitted, blobs = fit_facts(facts)
        for body in blobs.values():  # stored before events name them (I-35)
            await self._stored.put(body)
        return await self._dispatcher.report(lease, fitted, wants=owner)

    @property
    def _has_time(self) -> bool:
        """Return whether the time slice of the slot lasts."""
        return asyncio.get_running_loop().time() < self._until

    async def _in_turn(self, work: Callable[[], T]) -> T:
        """Evaluate templates in a turn; read the values that they need."""
        turns = self._dispatcher.turns
        while True:
            try:
                if turns.is_free:
                    return turns.call(work)
                return await turns.take(work)
            except Unloaded as needed:
                await self._stored.supply(needed.references, self._values)


def _source(work: WorkItem, call: Call) -> LogSource:
    """Return the attempt that an output belongs to."""
    lease, frame = work.lease, work.frame
    return LogSource(
        frame.execution_id,
        frame.step,
        lease.command_id,
        call.task.label,
        call.task_run_id,
        call.attempt,
        lease.epoch,
    )


def _no_tool(kind: str) -> str:
    return (
        f"this worker has no tool of kind '{kind}': name its plug-in in the setting "
        "plugins, or run the step in a pool whose workers have it"
    )
