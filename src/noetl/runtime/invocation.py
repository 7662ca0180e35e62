"""One attempt of one task: the call of its tool, and whatever becomes of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import msgspec

from noetl.engine.outcome import Meta, Outcome
from noetl.engine.pipeline import Call, Frame
from noetl.engine.times import rfc3339
from noetl.engine.tracing import span_id_of
from noetl.errors import LeaseLost, ToolError
from noetl.ports import Drafts, Tool, ToolCall
from noetl.runtime.defects import describe, is_stop
from noetl.runtime.dispatch import TokenGiver
from noetl.runtime.live import Answer

VISIBLE_AFTER = 0.25
"""Seconds after which a call without effects is put on record as begun, too."""


def tool_call(frame: Frame, call: Call, folder: str | None, drafts: Drafts) -> ToolCall:
    return ToolCall(
        kind=call.task.kind,
        inputs=call.inputs,
        spec=call.spec,
        execution_id=frame.execution_id,
        step=frame.step,
        task=call.task.label,
        action_id=call.action_id,
        attempt=call.attempt,
        folder=folder,
        drafts=drafts,
    )


def meta_of(frame: Frame, call: Call, began: float, ended: float) -> Meta:
    return Meta(
        call.attempt,
        rfc3339(began),
        rfc3339(ended),
        round((ended - began) * 1000, 3),
        frame.trace_id,
        span_id_of(call.task_run_id, call.attempt),
    )


class Invocation:
    """Whatever a tool does, its end is an outcome; only our own stop is not."""

    def __init__(self, tool: Tool, call: ToolCall, keys: TokenGiver) -> None:
        self.tool = tool
        self._call = call
        self._keys = keys

    @property
    def has_effect(self) -> bool:
        """Whether the log must know of the start before it happens."""
        if self._call.spec.get("idempotent"):
            return False
        try:
            return self.tool.has_effect(self._call)
        except Exception:
            return True  # a tool that cannot say may have one

    async def run(self) -> Outcome:
        try:
            return await self.tool.run(await self._authorized())
        except ToolError as error:
            return Outcome.failed(
                error.kind,
                error.message,
                retryable=error.retryable,
                details=error.details,
                **error.helper,
            )
        except BaseException as error:
            # A tool must raise ToolError; anything else is its defect, not a crash:
            # also what would end the process, or the task that awaits it.
            if is_stop(error):
                raise
            return Outcome.failed("tool.contract", describe(error))

    async def _authorized(self) -> ToolCall:
        """The call; where it asks for a token, with one. A retry gets a new one."""
        call, auth = self._call, self._call.inputs.get("auth")
        if not isinstance(auth, Mapping) or auth.get("type") != "oauth2":
            return call
        fresh = call.attempt > 1
        token = await self._keys.authorize(call.at, auth, fresh=fresh)
        return msgspec.structs.replace(call, inputs={**call.inputs, "auth": token})


class Calling:
    """A tool at work, in the task that awaits it: another one would cost as much as a
    short call. It can be stopped, and becomes visible in the log if it takes long.
    """

    def __init__(self, flush: Callable[[], Awaitable[Answer]]) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._flush = flush
        self._telling: asyncio.Task[None] | None = None
        self._lost: Exception | None = None
        self._stopped = self._over = False

    async def result(self, invocation: Invocation) -> Outcome:
        """Its outcome; one that was stopped ends as ``cancelled``."""
        # A timer alone: waiting with a limit costs more.
        timer = self._task.get_loop().call_later(VISIBLE_AFTER, self._show)
        try:
            outcome = await invocation.run()
        except asyncio.CancelledError:
            self._over = True
            if not self._stopped or self._task.uncancel():
                if self._telling is not None:
                    self._telling.cancel()
                raise  # we are being stopped, not the call alone
            if self._lost is not None:
                raise self._lost from None
            return Outcome.failed("cancelled", "the execution was cancelled")
        else:
            self._over = True
            if self._stopped:  # too late, or the tool has an outcome all the same
                self._task.uncancel()
            return outcome
        finally:
            timer.cancel()
            if self._telling is not None:
                # What is told of it later comes after what is being told.
                await asyncio.wait({self._telling})

    def stop(self) -> None:
        """Of what is over, nothing is left to stop."""
        if not self._stopped and not self._over:
            self._stopped = True
            self._task.cancel()

    def _show(self) -> None:
        self._telling = asyncio.ensure_future(self._tell())

    async def _tell(self) -> None:
        try:
            answer = await self._flush()
            if answer.stop:  # it has no effect, and somebody else may begin it again
                raise LeaseLost("the worker was told to leave what it had begun")
        except Exception as error:  # a lease that is lost, or a store
            self._lost = error
            self.stop()
