"""The worker's heart: claim, run the pipeline, report."""

from __future__ import annotations

import asyncio
import contextlib

from noetl.engine.outcome import Meta, Outcome
from noetl.engine.pipeline import Call, Ended, Pipeline, Wait
from noetl.engine.reports import Fact, OutOfOrder
from noetl.errors import LeaseLost, ToolError
from noetl.ports import Clock, Tool, ToolCall
from noetl.runtime.clock import rfc3339
from noetl.runtime.orchestrator import Orchestrator, Work

TTL = 30.0


class Executor:
    """A pool of slots. Each takes one pipeline at a time, task after task."""

    def __init__(
        self,
        orchestrator: Orchestrator,
        tools: dict[str, Tool],
        clock: Clock,
        *,
        owner: str,
        slots: int,
        folder: str | None = None,
    ) -> None:
        self._orchestrator = orchestrator
        self._tools = tools
        self._clock = clock
        self._owner = owner
        self._slots = slots
        self._folder = folder
        self._running: set[asyncio.Task[None]] = set()
        self._calls: set[asyncio.Task[Outcome]] = set()
        self._broken: BaseException | None = None
        self.draining = False

    async def serve(self) -> None:
        """Take work until cancelled; the bell rings when there may be some."""
        bell = self._orchestrator.bell
        try:
            while True:
                if self._broken is not None:
                    raise self._broken
                bell.clear()
                free = self._slots - len(self._running)
                works = []
                if free > 0 and not self.draining:
                    works = await self._orchestrator.claim(self._owner, free, TTL)
                for work in works:
                    task = asyncio.create_task(self._run(work))
                    self._running.add(task)
                    task.add_done_callback(self._finished)
                if not works:
                    await bell.wait()
        finally:
            await self._stop()

    async def drain(self) -> None:
        """Wait until the calls under way have ended; none is begun any more."""
        self.draining = True
        while self._running:
            await asyncio.wait(set(self._running))

    def stop_calls(self) -> None:
        """Stop the tools that run: their attempts end as ``cancelled`` (S-38)."""
        for call in self._calls:
            call.cancel()

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._broken = task.exception()  # a defect of ours: never hang on it
        self._orchestrator.bell.set()

    async def _stop(self) -> None:
        for task in self._running:
            task.cancel()
        for task in list(self._running):
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await task

    async def _run(self, work: Work) -> None:
        tasks = work.playbook.steps[work.frame.step].tasks
        pipeline = Pipeline(tasks, work.frame, work.progress)
        facts: list[Fact] = []
        if not work.frame.path and work.progress.tasks == 0:
            facts.append(Fact("step.started"))
        # The run is somebody else's, or was ended by a cancel: say nothing more.
        with contextlib.suppress(LeaseLost, OutOfOrder):
            while True:
                if self.draining:  # between two tasks: another owner goes on here
                    await self._flush(work, facts)
                    return
                match pipeline.next():
                    case Ended():
                        return
                    case Wait(seconds):
                        await self._flush(work, facts)
                        await self._clock.sleep(seconds)
                    case Call() as call:
                        label, attempt = call.task.label, call.attempt
                        facts.append(Fact("task.started", label, attempt))
                        if call.outcome is None:  # record before effect (I-17)
                            await self._flush(work, facts)
                        payload = await self._call(work, pipeline, call)
                        facts.append(Fact("task.done", label, attempt, payload))
                        if pipeline.progress.end or payload.get("set_ctx"):
                            await self._flush(work, facts)

    async def _flush(self, work: Work, facts: list[Fact]) -> None:
        if not facts:
            return
        said, facts[:] = list(facts), []
        try:
            await self._orchestrator.report(work.lease, said)
        except OutOfOrder:
            # No task may start any more; what was done before counts all the same.
            if len(said) > 1 and said[-1].name == "task.started":
                await self._orchestrator.report(work.lease, said[:-1])
            raise

    async def _call(
        self, work: Work, pipeline: Pipeline, call: Call
    ) -> dict[str, object]:
        began = self._clock.now()
        outcome = call.outcome
        if outcome is None:
            outcome = await self._invoke(work, call)
        ended = self._clock.now()
        meta = Meta(
            call.attempt,
            rfc3339(began),
            rfc3339(ended),
            round((ended - began) * 1000, 3),
        )
        return pipeline.take(outcome, meta)

    async def _invoke(self, work: Work, call: Call) -> Outcome:
        tool = self._tools[call.task.kind]
        frame = work.frame
        request = ToolCall(
            kind=call.task.kind,
            inputs=call.inputs,
            spec=call.spec,
            execution_id=frame.execution_id,
            step=frame.step,
            task=call.task.label,
            action_id=call.action_id,
            attempt=call.attempt,
            folder=self._folder,
        )
        running = asyncio.ensure_future(tool.run(request))
        self._calls.add(running)
        try:
            return await running
        except asyncio.CancelledError:
            if not running.cancelled():  # we are being stopped, not the call alone
                running.cancel()
                raise
            if asyncio.current_task().cancelling():  # type: ignore[union-attr]
                raise
            return Outcome.failed("cancelled", "the execution was cancelled")
        except ToolError as error:
            return Outcome.failed(
                error.kind,
                error.message,
                retryable=error.retryable,
                details=error.details,
                **error.helper,
            )
        except Exception as error:
            # A tool must raise ToolError; anything else is its defect, not a crash.
            message = f"{type(error).__name__}: {error}"
            return Outcome.failed("tool.contract", message)
        finally:
            self._calls.discard(running)
