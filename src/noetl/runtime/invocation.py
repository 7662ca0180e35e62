"""One attempt of one task: the call of its tool, and whatever becomes of it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping

import msgspec

from noetl.engine.outcome import Meta, Outcome
from noetl.engine.pipeline import Call, Frame
from noetl.engine.times import rfc3339
from noetl.engine.tracing import span_id_of
from noetl.errors import ToolError
from noetl.ports import Drafts, Tool, ToolCall
from noetl.runtime.dispatch import TokenGiver

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
        return self.tool.has_effect(self._call)

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
        except Exception as error:
            # A tool must raise ToolError; anything else is its defect, not a crash.
            message = f"{type(error).__name__}: {error}"
            return Outcome.failed("tool.contract", message)

    async def _authorized(self) -> ToolCall:
        """The call; where it asks for a token, with one. A retry gets a new one."""
        call, auth = self._call, self._call.inputs.get("auth")
        if not isinstance(auth, Mapping) or auth.get("type") != "oauth2":
            return call
        fresh = call.attempt > 1
        token = await self._keys.authorize(call.execution_id, auth, fresh=fresh)
        return msgspec.structs.replace(call, inputs={**call.inputs, "auth": token})

    async def watch(
        self, running: asyncio.Task[Outcome], flush: Callable[[], Awaitable[object]]
    ) -> Outcome:
        """Await it; a call that takes long becomes visible in the log meanwhile."""
        # A timer alone: most calls are short, and waiting with a limit costs as much
        # as they do.
        watch = _Watch(running, flush)
        timer = running.get_loop().call_later(VISIBLE_AFTER, watch.show)
        try:
            return await running
        except asyncio.CancelledError:
            if asyncio.current_task().cancelling():  # type: ignore[union-attr]
                watch.stop()  # we are being stopped, not the call alone
                raise
            if watch.lost is not None:
                raise watch.lost from None
            return Outcome.failed("cancelled", "the execution was cancelled")
        finally:
            timer.cancel()
            await watch.end()


class _Watch:
    """Tells the log of a call that takes long; one that is nobody's any more ends."""

    def __init__(
        self, running: asyncio.Task[Outcome], flush: Callable[[], Awaitable[object]]
    ) -> None:
        self._telling: asyncio.Task[None] | None = None
        self.lost: Exception | None = None
        self._running = running
        self._flush = flush

    def show(self) -> None:
        if not self._running.done():
            self._telling = asyncio.ensure_future(self._tell())

    def stop(self) -> None:
        if self._telling is not None:
            self._telling.cancel()

    async def end(self) -> None:
        """What is told of it later comes after what is being told."""
        if self._telling is not None:
            await asyncio.wait({self._telling})

    async def _tell(self) -> None:
        try:
            await self._flush()
        except Exception as error:  # a lease that is lost, or a store
            self.lost = error
            self._running.cancel()
