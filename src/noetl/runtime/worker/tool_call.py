"""One attempt of one task: the call of its tool, and its outcome."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from hashlib import sha256
from types import MappingProxyType

import msgspec

from noetl.dsl.rates import parse_rate
from noetl.engine.ids import span_id_of
from noetl.engine.reports.accept import Fact
from noetl.engine.state import Frame
from noetl.engine.tasks.outcome import Meta, Outcome, PrintedMeta, envelope
from noetl.engine.tasks.pipeline import Call
from noetl.engine.tasks.policy import failure_of
from noetl.engine.times import rfc3339
from noetl.errors import LeaseLost, ToolError, Unreachable
from noetl.ports import CallLimit, Drafts, Lease, Output, Tool, ToolCall
from noetl.runtime.dispatcher import ReportAnswer, TokenGiver, WorkItem
from noetl.runtime.executions.quarantine import is_defect, number_of
from noetl.telemetry.trace_context import traceparent
from noetl.types import JSON


def is_stop(error: BaseException) -> bool:
    """Return whether the current task is being cancelled; a tool may raise the same
    error.
    """
    if isinstance(error, asyncio.CancelledError):
        task = asyncio.current_task()
        return task is not None and task.cancelling() > 0
    return isinstance(error, GeneratorExit)


def is_passing(error: BaseException) -> bool:
    """Return whether a retry may succeed: a store or a server did not answer."""
    if isinstance(error, Unreachable | asyncio.CancelledError):
        return True
    return isinstance(error, Exception) and not is_defect(error)


def describe(error: BaseException) -> str:
    """Return the exception's type and text; the text may be unavailable."""
    name = type(error).__name__
    try:
        return f"{name}: {error}"
    except Exception:
        return name


def about_lease(lease: Lease, step: str) -> dict[str, str]:
    """Return the ids of a pipeline as fields for a line of the log."""
    return {
        "execution_id": lease.execution_id,
        "command_id": lease.command_id,
        "step": step,
    }


def complain(
    log: logging.Logger,
    what: str,
    error: BaseException,
    about: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Log an error with these fields, and with its traceback if it is a defect."""
    if is_passing(error):
        log.warning("%s: %s", what, describe(error), extra={**about})
    else:
        fields = {**about, "defect": number_of(error)}
        log.error(what, extra=fields, exc_info=error)


def last_facts(
    work: WorkItem, unreported: Sequence[Fact], error: BaseException, now: float
) -> list[Fact]:
    """Return the facts that end the pipeline as failed. They contain the defect's
    number and no value of the execution.
    """
    progress, frame = work.progress, work.frame
    label, attempt = progress.label or "", progress.attempt
    number = number_of(error)
    message = (
        f"task '{label}' met a defect of NoETL ({type(error).__name__}); the log of "
        f"{work.lease.owner} has it under the number {number}"
    )
    outcome = Outcome.failed("worker.defect", message, details={"defect": number})
    kinds = {each.label: each.kind for each in work.playbook.steps[frame.step].tasks}
    meta = Meta(attempt, rfc3339(now), rfc3339(now), 0.0, frame.trace_id)
    body = envelope(outcome, kinds.get(label, ""), meta)
    payload = failure_of(body, label, body["error"])
    payload["directive"]["next"] = None
    facts = [fact for fact in unreported if fact.name != "task.suspended"]
    begun = Fact("task.started", label, attempt)
    if begun not in facts:
        facts.append(begun)
    return [*facts, Fact("task.done", label, attempt, payload)]


DEFAULT_TIMEOUT_S = 3600.0
"""Seconds that a call may take if neither its task nor its kind has a timeout."""

RECORD_START_AFTER_S = 0.25
"""Seconds after which a call without effects is recorded as started, too."""


def tool_call(
    frame: Frame,
    call: Call,
    folder: str | None,
    drafts: Drafts,
    output: Output | None = None,
) -> ToolCall:
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
        output=output,
        traceparent=traceparent(
            frame.trace_id, span_id_of(call.task_run_id, call.attempt)
        )
        if frame.trace_id
        else None,
    )


def meta_of(
    frame: Frame,
    call: Call,
    began: float,
    ended: float,
    logs: dict[str, int] | None = None,
) -> Meta:
    """Return times and ids of a call, and the size of its log if it printed."""
    meta = Meta(
        call.attempt,
        rfc3339(began),
        rfc3339(ended),
        round((ended - began) * 1000, 3),
        frame.trace_id,
        span_id_of(call.task_run_id, call.attempt),
    )
    if not logs:
        return meta
    return PrintedMeta(**msgspec.structs.asdict(meta), logs=logs)


class Invocation(msgspec.Struct, frozen=True):
    """A call of a tool: each end is an outcome, except a stop of the worker."""

    tool: Tool
    call: ToolCall
    keys: TokenGiver

    @property
    def has_effect(self) -> bool:
        """Return whether the start must be recorded before the call."""
        if self.call.spec.get("idempotent"):
            return False
        try:
            return self.tool.has_effect(self.call)
        except Exception:
            return True  # a tool that does not declare its effects may have some

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
            # Any exception but ToolError is a defect of the tool and becomes an
            # outcome,
            # including those that would end the process or the awaiting task.
            if is_stop(error):
                raise
            return Outcome.failed("tool.contract", describe(error))

    async def _authorized(self) -> ToolCall:
        """Return the call, with a token if it asks for one; a retry gets a new one."""
        call, auth = self.call, self.call.inputs.get("auth")
        if not isinstance(auth, Mapping) or auth.get("type") != "oauth2":
            return call
        fresh = call.attempt > 1
        token = await self.keys.authorize(call.at, auth, fresh=fresh)
        return msgspec.structs.replace(call, inputs={**call.inputs, "auth": token})


class TimeLimit(msgspec.Struct, frozen=True):
    """The seconds that a call may take; ``is_default`` if no timeout is set.

    It applies besides the tool's own ``spec.timeout``.
    """

    seconds: float
    is_default: bool = False

    @property
    def message(self) -> str:
        stopped = f"not done after {self.seconds:g} s: the call was stopped"
        if self.is_default:
            return f"{stopped}; this is the default, and spec.timeout allows more"
        return (
            f"{stopped}; this is the most that the operator allows by the setting "
            "limits.tool_time, whatever spec.timeout says"
        )


def time_limit(spec: Mapping[str, JSON], ceiling: float) -> TimeLimit:
    """Return the operator's ``ceiling``, or an hour without ``spec.timeout``."""
    if "timeout" not in spec and ceiling > DEFAULT_TIMEOUT_S:
        return TimeLimit(DEFAULT_TIMEOUT_S, is_default=True)
    return TimeLimit(ceiling)


def limits_of(
    spec: Mapping[str, JSON], place: tuple[str, str, str]
) -> Sequence[CallLimit]:
    """Return the rate and the slots of a call, whose keys are hashed: a template may
    have put anything into them. ``place`` is path, step and label, the default key.

    Raises ``ValueError``.
    """
    limits: list[CallLimit] = []
    rate, slots = spec.get("rate"), spec.get("slots")
    if rate is not None:
        key = _key_of("rate", rate, place)
        interval = parse_rate(rate.get("limit"))
        limits.append(CallLimit(key, 1, interval, rate.get("burst", 1)))
    if slots is not None:
        limits.append(CallLimit(_key_of("slots", slots, place), slots["limit"]))
    return limits


def _key_of(name: str, body: Mapping[str, JSON], place: tuple[str, str, str]) -> str:
    key = body.get("key")
    if "key" not in body:
        parts = [name, *place]
    elif isinstance(key, str | int) and not isinstance(key, bool) and str(key):
        parts = [name, str(key)]
    else:
        found = "nothing" if key is None else type(key).__name__
        message = f"spec.{name}.key must give a text or a number, found {found}"
        raise ValueError(message)
    return sha256("\0".join(parts).encode()).hexdigest()


class RunningCall:
    """A running call, in the task that awaits it: a task of its own would cost as much
    as a short call. It can be stopped, and is recorded as started if it takes long.
    """

    def __init__(
        self, flush: Callable[[], Awaitable[ReportAnswer]], limit: TimeLimit
    ) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._task = task
        self._flush = flush
        self._limit = limit
        self._reporting: asyncio.Task[None] | None = None
        self._lost: Exception | None = None
        self._stopped = self._over = self._late = False

    async def result(self, invocation: Invocation) -> Outcome:
        """Return the outcome; a stopped call ends as ``cancelled``."""
        # A plain timer: waiting with a limit costs more.
        self._timer = self._task.get_loop().call_later(RECORD_START_AFTER_S, self._show)
        try:
            outcome = await invocation.run()
        except asyncio.CancelledError:
            self._over = True
            if not self._stopped or self._task.uncancel():
                if self._reporting is not None:
                    self._reporting.cancel()
                raise  # the worker is being stopped, not the call alone
            if self._lost is not None:
                raise self._lost from None
            if self._late:
                return Outcome.failed("timeout", self._limit.message, retryable=True)
            return Outcome.failed("cancelled", "the execution was cancelled")
        else:
            self._over = True
            if self._stopped:  # stopped too late: the tool has an outcome
                self._task.uncancel()
            return outcome
        finally:
            self._timer.cancel()
            if self._reporting is not None:
                # Reports are sent in order: wait for the report that is being sent.
                await asyncio.wait({self._reporting})

    def stop(self) -> None:
        """Stop the call, unless it has finished."""
        if not self._stopped and not self._over:
            self._stopped = True
            self._task.cancel()

    def _expire(self) -> None:
        if not self._stopped and not self._over:
            self._late = True
            self.stop()

    def _show(self) -> None:
        # A shorter call needs no second timer.
        rest = max(0.0, self._limit.seconds - RECORD_START_AFTER_S)
        self._timer = self._task.get_loop().call_later(rest, self._expire)
        self._reporting = asyncio.ensure_future(self._tell())

    async def _tell(self) -> None:
        try:
            answer = await self._flush()
            if answer.stop:  # it has no effect, and another worker may start it again
                raise LeaseLost("a server stopped this pipeline")
        except Exception as error:  # a lost lease, or a store error
            self._lost = error
            self.stop()
