"""Cancel, pause, resume and signal executions and their children."""

from __future__ import annotations

from collections.abc import Callable

from noetl.engine.decide import pause, resume
from noetl.engine.events import Caller
from noetl.engine.recorder import Batch
from noetl.engine.reports.accept import OutOfOrder
from noetl.engine.state import ExecutionStatus, State, status_of
from noetl.engine.steps.completion import cancel
from noetl.engine.waits.resume import children_of, waiting_in
from noetl.engine.waits.signals import Sender, receive
from noetl.errors import SetAside, SignalRefused, StoreError
from noetl.runtime.orchestrator import Orchestrator
from noetl.service.errors import RequestRefused, no_execution
from noetl.types import JSON

Order = Callable[[Batch], None]
_CLOSED = frozenset({"completed", "failed", "cancelled", "quarantined"})


class ExecutionControl:
    """Applies an order to the current state of an execution, or refuses it."""

    def __init__(self, orchestrator: Orchestrator) -> None:
        self._orchestrator = orchestrator

    async def cancel(self, execution_id: str, caller: Caller = None) -> ExecutionStatus:
        """Cancel the execution and its children; a repeated call changes nothing."""
        status = await self._status(execution_id)
        if status == "cancelled":
            return status
        self._need(status, "cancelled", status not in _CLOSED)
        return await self._order(execution_id, lambda batch: _cancel(batch, caller))

    async def pause(self, execution_id: str, caller: Caller = None) -> ExecutionStatus:
        """Pause the execution and its children: running tasks finish, no new task
        starts."""
        status = await self._status(execution_id)
        self._need(status, "paused", status in ("running", "waiting"))
        status = await self._order(execution_id, lambda batch: _pause(batch, caller))
        await self._reach(execution_id, lambda batch: pause(batch, caller))
        return status

    async def resume(self, execution_id: str, caller: Caller = None) -> ExecutionStatus:
        """Resume the execution and its children, and make lost rows of them again;
        also release a quarantined execution."""
        status = await self._status(execution_id)
        if status == "quarantined":
            return await self._take_back(execution_id)
        self._need(status, "resumed", status == "paused")
        await self._reach(execution_id, lambda batch: resume(batch, caller), mends=True)
        return await self._order(
            execution_id, lambda batch: _resume(batch, caller), mends=True
        )

    async def signal(
        self,
        execution_id: str,
        name: str,
        data: JSON,
        sender: Sender | None = None,
        caller: Caller = None,
        question: tuple[str, str] | None = None,
    ) -> ExecutionStatus:
        """Record a signal after a check of its name, its data and its sender's roles.

        ``question`` is the command of a pipeline and the time since when it waits: the
        signal is for this wait alone, and refused (``answer.over``) after its end.
        """
        status = await self._status(execution_id)
        self._need(status, "told anything", status not in _CLOSED)

        def tell(batch: Batch) -> None:
            _need(batch.state, "told anything", batch.state.cancelling is None)
            if question is not None:
                _need_question(batch.state, question)
            receive(batch, name, data, sender, caller, question and question[0])

        try:
            return await self._order(execution_id, tell)
        except SignalRefused as error:
            more: dict[str, JSON] = {"waits": error.waits}
            if error.problems is not None:
                more["problems"] = error.problems
            raise RequestRefused(error.kind, error.message, **more) from None

    async def _take_back(self, execution_id: str) -> ExecutionStatus:
        try:
            return await self._orchestrator.recovery.release_quarantine(execution_id)
        except SetAside as error:
            raise _is_aside(error) from None

    async def _status(self, execution_id: str) -> ExecutionStatus:
        """Read the status from the store; finished executions are not loaded."""
        try:
            return (await self._orchestrator.store.summary(execution_id)).status
        except StoreError as error:
            if error.kind == "store.missing":
                raise no_execution() from None
            raise

    async def _order(
        self, execution_id: str, order: Order, *, mends: bool = False
    ) -> ExecutionStatus:
        try:
            await self._tell(execution_id, order, mends)
        except OutOfOrder:  # the execution ended and was evicted in the meantime
            raise _does_not_fit(await self._status(execution_id), "changed") from None
        except SetAside as error:
            raise _is_aside(error) from None
        return await self._status(execution_id)

    async def _tell(self, execution_id: str, order: Order, mends: bool) -> None:
        await self._orchestrator.load(execution_id)
        try:
            await self._orchestrator.decide(execution_id, order, mends=mends)
        finally:
            live = self._orchestrator.cache.get(execution_id)
            if live is not None and live.state.finished:
                self._orchestrator.cache.evict(execution_id)

    async def _reach(
        self, execution_id: str, order: Order, *, mends: bool = False
    ) -> None:
        """Apply the order to all descendants that the execution waits for."""
        state = await self._orchestrator.load(execution_id)
        for _, child in list(children_of(state)):
            child_id: str = child["execution_id"]
            try:
                await self._tell(child_id, order, mends)
                await self._reach(child_id, order, mends=mends)
            except (StoreError, OutOfOrder):
                continue  # the child has not started yet, or has finished

    @staticmethod
    def _need(status: ExecutionStatus, what: str, fits: bool) -> None:
        if not fits:
            raise _does_not_fit(status, what)


def _need(state: State, what: str, fits: bool) -> None:
    if not fits or state.finished:
        raise _does_not_fit(status_of(state), what)


def _does_not_fit(status: ExecutionStatus, what: str) -> RequestRefused:
    message = f"the execution is {status}: it cannot be {what}"
    hint = "run noetl resume to continue it" if status == "quarantined" else None
    return RequestRefused("execution.state", message, hint, state=status)


def _is_aside(error: SetAside) -> RequestRefused:
    hint = "repair the cause that the error names, then run noetl resume"
    return RequestRefused(SetAside.kind, str(error), hint, state="quarantined")


def _cancel(batch: Batch, caller: Caller) -> None:
    if batch.state.status != "cancelled":
        _need(batch.state, "cancelled", True)
        cancel(batch, caller=caller)


def _pause(batch: Batch, caller: Caller) -> None:
    _need(batch.state, "paused", batch.state.status == "running")
    if batch.state.cancelling is not None:
        message = "the execution is being cancelled: it cannot be paused"
        raise RequestRefused("execution.state", message, state="running")
    pause(batch, caller)


def _resume(batch: Batch, caller: Caller) -> None:
    _need(batch.state, "resumed", batch.state.status == "paused")
    resume(batch, caller)


def _need_question(state: State, question: tuple[str, str]) -> None:
    for command_id, _, waiting in waiting_in(state):
        if (command_id, waiting.since) == question and waiting.on == "signal":
            return
    message = "the question was answered already, or is not asked any more"
    raise RequestRefused("answer.over", message)
