"""Child executions: started once, and their result returned once (S-37)."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine

from noetl.engine.decide import resume
from noetl.engine.reports.accept import OutOfOrder
from noetl.engine.state import State
from noetl.engine.waits.resume import answer_child, children_of
from noetl.ports import Store
from noetl.runtime.event_loop import end_tasks
from noetl.runtime.executions.access import Executions
from noetl.runtime.executions.after_commit import Commit
from noetl.runtime.executions.child_requests import (
    ChildRefused,
    ChildRequest,
    ChildRequests,
    Lane,
)
from noetl.runtime.executions.loaded import LoadedExecution
from noetl.runtime.executions.start import ExecutionStarter
from noetl.types import JSON

MAX_AT_ONCE = 8
"""Children of one family that a server starts, answers for or stops at once: other
families wait for no more than these."""
MAX_REMEMBERED = 1_000
"""Cancelled families that are remembered: no more of their children are started."""


class ChildExecutions:
    """Starts the children that executions call, returns their results, and cancels
    those that no execution waits for.

    The log records which execution waits for which. The id of a child is derived
    from the action that calls it, so every step here can be repeated. ``changed`` is
    set when work on a child ends; ``error`` is the last one that failed.
    """

    def __init__(
        self,
        store: Store,
        executions: Executions,
        starter: ExecutionStarter,
        requests: ChildRequests,
        changed: asyncio.Event,
        *,
        is_server: bool,
    ) -> None:
        self._store = store
        self._executions = executions
        self._cache = executions.cache
        self._starter = starter
        self._requests = requests
        self._changed = changed
        self._is_server = is_server
        self._tasks: set[asyncio.Future[None]] = set()
        self._starts = Lane(MAX_AT_ONCE)
        self._answers = Lane(MAX_AT_ONCE)
        self._stops = Lane(MAX_AT_ONCE)
        self._cancelled_families: dict[str, None] = {}
        self.error: BaseException | None = None

    @property
    def busy(self) -> bool:
        return bool(self._tasks)

    async def check(self, execution_id: str, timer_id: str) -> None:
        """Act on the timer of a relative, whose server may have been lost."""
        what, _, command_id = timer_id.partition(":")
        loaded = self._cache.get(execution_id)
        if loaded is None:
            return
        if what == "child":
            child = dict(children_of(loaded.state)).get(command_id)
            if child is not None:
                # Another server may have recorded the call: this one adopts the child.
                loaded.children[child["execution_id"]] = command_id
                await self._start(execution_id, loaded, command_id, child)
        elif loaded.state.parent is not None and not loaded.state.finished:
            caller = loaded.state.parent["execution_id"]
            await self._executions.refresh(caller)
            above = await self._executions.load(caller)
            awaited = {child["execution_id"] for _, child in children_of(above)}
            if execution_id not in awaited:
                await self._executions.cancel(execution_id, above.cancelling)

    async def close(self) -> None:
        """Cancel the work on children: the log stays as it is."""
        await end_tasks(self._tasks)

    def after_commit(self, commit: Commit) -> None:
        """Start called children, cancel unawaited ones, return a result."""
        loaded, state = commit.loaded, commit.loaded.state
        for command_id, child in commit.effects.children.items():
            self._adopt(state.execution_id, loaded, command_id, child)
        if state.cancelling is not None and state.parent is None:
            self._cancel_family(state.family)
        if loaded.children:
            self._stop_unawaited(loaded)
        if state.finished and state.parent is not None:
            work = self._answer(state.execution_id, state)
            self._spawn(work, self._answers, state.family)

    def resume_from_log(self, execution_id: str, loaded: LoadedExecution) -> None:
        """Start the children that a loaded execution waits for, or attach to them."""
        for command_id, child in children_of(loaded.state):
            self._adopt(execution_id, loaded, command_id, child)

    def _cancel_family(self, family: str) -> None:
        """Start no more children: the root is cancelled, and all others will be."""
        self._cancelled_families[family] = None
        if len(self._cancelled_families) > MAX_REMEMBERED:
            del self._cancelled_families[next(iter(self._cancelled_families))]

    def _stop_unawaited(self, loaded: LoadedExecution) -> None:
        """Cancel the children that the execution no longer waits for."""
        awaited = {child["execution_id"] for _, child in children_of(loaded.state)}
        for child_id in [each for each in loaded.children if each not in awaited]:
            del loaded.children[child_id]
            if child_id in self._cache or self._is_server:
                work = self._stop(child_id, loaded.state.cancelling)
                self._spawn(work, self._stops, loaded.state.family)

    def _adopt(
        self,
        execution_id: str,
        loaded: LoadedExecution,
        command_id: str,
        child: dict[str, JSON],
    ) -> None:
        loaded.children[child["execution_id"]] = command_id
        work = self._start(execution_id, loaded, command_id, child)
        self._spawn(work, self._starts, loaded.state.family)

    async def _start(
        self,
        parent_id: str,
        loaded: LoadedExecution,
        command_id: str,
        child: dict[str, JSON],
    ) -> None:
        child_id, family = child["execution_id"], loaded.state.family
        if child_id not in loaded.children or family in self._cancelled_families:
            return  # it was cancelled before its turn
        if await self._store.read(child_id, limit=1):
            await self._attach(child_id)
            await self._recheck(loaded, child_id)
            return
        try:
            made = await self._requests.make(loaded, command_id, child)
            if child_id not in loaded.children:
                return  # it was cancelled while it started
            await self._start_new(made, child["path"])
        except OutOfOrder:  # another server, or another timer, has started it
            await self._attach(child_id)
        except ChildRefused as error:
            await self._fail(parent_id, command_id, child_id, error.kind, str(error))
            return
        await self._recheck(loaded, child_id)

    async def _start_new(self, made: ChildRequest, path: str) -> None:
        """Start a child. Raises ``ChildRefused`` for a rejected request."""
        if made.playbook is None:
            await self._starter.reject(made.request, made.error)
            message = f"playbook '{path}' is not valid: {made.error['message']}"
            raise ChildRefused("playbook.invalid", message)
        refusal = await self._starter.start(made.playbook, made.request)
        if refusal is not None:
            message = f"playbook '{path}' was not started: {refusal['message']}"
            raise ChildRefused(refusal["kind"], message)

    async def _recheck(self, loaded: LoadedExecution, child_id: str) -> None:
        """Cancel the child if its caller was cancelled while the child was started."""
        if child_id not in loaded.children:
            await self._stop(child_id, loaded.state.cancelling)

    async def _attach(self, child_id: str) -> None:
        """Continue with a child that is stored already: return its result, if any."""
        await self._executions.refresh(child_id)
        state = await self._executions.load(child_id)
        if state.finished:
            await self._answer(child_id, state)
        elif state.status == "paused" and not self._is_server:
            await self._executions.enqueue(child_id, resume)

    async def _answer(self, child_id: str, state: State) -> None:
        self._cache.evict(child_id)
        parent = state.parent or {}
        if self._is_server:
            await self._executions.load(parent["execution_id"])
        if parent["execution_id"] not in self._cache:
            return
        answer: dict[str, JSON] = {
            "execution_id": child_id,
            "status": state.status,
            "result": state.result,
            "error": state.error,
        }
        if state.warnings:
            answer["warnings"] = state.warnings
        await self._give(parent["execution_id"], parent["command_id"], child_id, answer)

    async def _fail(
        self, parent_id: str, command_id: str, child_id: str, kind: str, message: str
    ) -> None:
        error = {"kind": kind, "message": message}
        answer = {"execution_id": None, "status": None, "result": None, "error": error}
        await self._give(parent_id, command_id, child_id, answer)

    async def _give(
        self, parent_id: str, command_id: str, child_id: str, answer: dict[str, JSON]
    ) -> None:
        if parent_id not in self._cache:
            return
        await self._executions.enqueue(
            parent_id, lambda batch: answer_child(batch, command_id, child_id, answer)
        )

    async def _stop(self, child_id: str, error: dict[str, JSON] | None) -> None:
        if self._is_server:
            await self._executions.load(child_id)
        if child_id not in self._cache:
            return  # it has ended
        if not self._cache[child_id].state.finished:
            await self._executions.cancel(child_id, error)

    def _spawn(
        self, work: Coroutine[None, None, None], lane: Lane, family: str
    ) -> None:
        """Run work on a child: on a server in the lane of its family."""
        if self._is_server:
            work = _in_turn(work, lane, family)
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Future[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self.error = task.exception()  # the store failed: callers must not wait
        self._changed.set()


async def _in_turn(work: Coroutine[None, None, None], lane: Lane, family: str) -> None:
    try:
        async with lane.turn(family):
            await work
    finally:
        work.close()  # it may not have been started
