"""The inbox of executions: decides all queued inputs in one batch and commits it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from functools import partial

from noetl.engine.decide import SETTLE, expire
from noetl.engine.effects import effects_of, ready_in
from noetl.engine.recorder import Batch
from noetl.engine.state import is_waiting
from noetl.engine.steps.completion import bound_log
from noetl.engine.times import NEVER
from noetl.engine.waits.resume import moments_in
from noetl.errors import LogConflict, NoetlError, StoreError, Unloaded
from noetl.ports import Clock, Lease, Store
from noetl.runtime.dispatcher import Prefetch, ReportAnswer
from noetl.runtime.event_loop import SLOW_DECISION_S, Turns, Watchdog, end_tasks
from noetl.runtime.executions.after_commit import AfterCommit, Commit
from noetl.runtime.executions.cache import ExecutionCache
from noetl.runtime.executions.loaded import (
    Decision,
    InboxItem,
    LoadedExecution,
    freeze,
    thaw,
)
from noetl.runtime.executions.mending import with_lost_rows
from noetl.runtime.executions.placement import Placement, grant
from noetl.runtime.executions.snapshots import catch_up, fold
from noetl.runtime.executions.transition import transition_of
from noetl.runtime.keychain import Keyring
from noetl.runtime.values.ownership import Owners
from noetl.runtime.values.stores import Results, store_blobs

MAX_BATCH_COST = 200_000
"""Steps of templates, and events counted as such, after which a batch is committed and
other executions are served before this one continues."""
MAX_BATCH_ITEMS = 200
"""Items that are decided in one batch."""
KEEP_WAITING_FOR_S = 60.0
"""A waiting execution that is due within this time stays in memory."""
MAX_CONFLICTS = 20
"""Commits of other servers that may come first before the items are refused."""


class ExecutionInbox:
    """One writer per execution in this process; the store decides between processes.

    ``watchdog`` counts slow decisions; an embedded run has none.
    """

    def __init__(
        self,
        store: Store,
        results: Results,
        owners: Owners,
        clock: Clock,
        keys: Keyring,
        cache: ExecutionCache,
        placement: Placement,
        turns: Turns,
        after_commit: AfterCommit,
        watchdog: Watchdog | None = None,
    ) -> None:
        self._store = store
        self._results = results
        self._owners = owners
        self._clock = clock
        self._keys = keys
        self._cache = cache
        self._placement = placement
        self._turns = turns
        self._after_commit = after_commit
        self._watchdog = watchdog
        self._tasks: set[asyncio.Task[None]] = set()

    def enqueue(
        self,
        execution_id: str,
        decide: Decision,
        lease: Lease | None = None,
        prefetch: Prefetch | None = None,
        disarm: str | None = None,
        number: int = 0,
        *,
        mends: bool = False,
    ) -> asyncio.Future[ReportAnswer]:
        """Queue a decision on a loaded execution. Raises ``OutOfOrder``.

        Decisions that are queued together are committed together.
        """
        loaded, loop = self._cache[execution_id], asyncio.get_running_loop()
        future: asyncio.Future[ReportAnswer] = loop.create_future()
        item = InboxItem(decide, future, lease, prefetch, disarm, number, mends)
        loaded.inbox.append(item)
        loaded.used = self._clock.now()
        if not loaded.busy:
            loaded.busy = True
            task = asyncio.create_task(self._drain(execution_id, loaded))
            self._tasks.add(task)
        return future

    async def close(self) -> None:
        """Cancel undecided batches: the log stays as it is."""
        await end_tasks(self._tasks)

    async def _drain(self, execution_id: str, loaded: LoadedExecution) -> None:
        task = asyncio.current_task()
        assert task is not None
        try:
            while loaded.inbox:
                items = loaded.inbox[:MAX_BATCH_ITEMS]
                loaded.inbox = loaded.inbox[MAX_BATCH_ITEMS:]
                try:
                    await self._commit_or_retry(execution_id, loaded, items)
                except _Unrestored as lost:
                    _refuse_all([*items, *loaded.inbox], lost.error)
                    return
                except BaseException as error:  # no caller waits for ever
                    _refuse_all([*items, *loaded.inbox], error)
                    raise
        finally:
            loaded.busy = False
            self._tasks.discard(task)
            self._evict_if_idle(execution_id, loaded)

    def _evict_if_idle(self, execution_id: str, loaded: LoadedExecution) -> None:
        """Drop an execution that only waits: the next access reads its log.

        Callers of children stay: a child may be starting just now.
        """
        is_server = self._placement.pool is None
        state = loaded.state
        may_wait = is_server and state.suspended and not loaded.children
        if may_wait and is_waiting(state):
            soon = self._clock.now() + KEEP_WAITING_FOR_S
            if min(moments_in(state), default=NEVER) > soon:
                self._cache.drop(execution_id)

    async def _commit_or_retry(
        self,
        execution_id: str,
        loaded: LoadedExecution,
        items: Sequence[InboxItem],
        conflicts: int = MAX_CONFLICTS,
    ) -> None:
        try:
            if loaded.stale:
                await self._catch_up(execution_id, loaded)
            await self._commit_batch(execution_id, loaded, items)
        except LogConflict as conflict:
            await self._restore(execution_id, loaded, conflict)
            if conflicts:  # another server was first: decide again on its events
                await self._commit_or_retry(execution_id, loaded, items, conflicts - 1)
            else:
                for item in items:
                    _refuse(item, conflict)
        except Exception as error:
            await self._restore(execution_id, loaded, error)
            if len(items) == 1:
                _refuse(items[0], error)
                return
            for item in items:  # one item is to blame: the others can be committed
                await self._commit_or_retry(execution_id, loaded, [item], conflicts)

    async def _commit_batch(
        self, execution_id: str, loaded: LoadedExecution, items: Sequence[InboxItem]
    ) -> None:
        after = loaded.state.seq
        batch = await self._decide(execution_id, loaded, items)
        reported = {item.lease.command_id for item in items if item.lease}
        if any(item.error for item in items):
            await self._check_refusal(execution_id, after)
        if batch.events or any(_changes_store(item) for item in items):
            ready = ready_in(batch.events)
            granted = grant(loaded, batch, items, self._placement, ready)
            effects = effects_of(batch.events)
            transition = transition_of(
                loaded,
                batch,
                effects,
                after,
                self._placement.plan(loaded, effects),
                self._placement,
                self._clock.now(),
                items,
                granted,
            )
            if any(item.mends for item in items):
                now = self._clock.now()
                transition = with_lost_rows(transition, loaded, self._placement, now)
            if batch.blobs:
                await store_blobs(await self._results.of(loaded.playbook), batch)
            if loaded.state.finished and loaded.state.parent is not None:
                caller = loaded.state.parent["execution_id"]
                await self._keys.share(execution_id, caller, loaded.state.result)
            await self._store.commit([transition])
            if loaded.state.finished:
                if loaded.may_have_secrets:
                    await self._keys.drop(execution_id)
                else:
                    self._keys.forget(execution_id)
            if batch.events:
                commit = Commit(loaded, batch.events, effects, granted, reported)
                self._after_commit(commit)
            if batch.is_cut:
                self._continue_after_cut(loaded)
        for item in items:
            if item.answer is not None:
                item.answer.ctx = loaded.state.ctx
                item.answer.spilled = loaded.state.spilled
            _reply(item)

    def _continue_after_cut(self, loaded: LoadedExecution) -> None:
        """Queue the rest of a batch first: each batch records at least one event."""
        future: asyncio.Future[ReportAnswer] = (
            asyncio.get_running_loop().create_future()
        )
        future.add_done_callback(_forget_error)  # its timer will try again
        decision = partial(expire, timer_id=SETTLE)
        loaded.inbox.insert(0, InboxItem(decision, future, disarm=SETTLE))

    async def _decide(
        self, execution_id: str, loaded: LoadedExecution, items: Sequence[InboxItem]
    ) -> Batch:
        # A decision changes the state in place. It is repeated if it needs values that
        # are not in memory: then the earlier state must be restored.
        before = freeze(loaded.state) if loaded.state.spilled else b""
        while True:
            now = self._clock.now()
            batch = Batch(
                loaded.playbook,
                loaded.net,
                loaded.state,
                now,
                loaded.values,
                loaded.secrets,
                MAX_BATCH_COST,
                self._placement.refusal_of,
            )
            try:
                decide = partial(self._decide_all, batch, items)
                if self._turns.is_free:
                    self._turns.call(decide)
                else:
                    await self._turns.take(decide)
            except Unloaded as needed:
                await self._owners.load(
                    execution_id, needed.references, loaded.values, recent=batch.events
                )
                if before:
                    loaded.state = thaw(before)
                else:
                    loaded.state = await fold(self._store, execution_id)
            else:
                if self._turns.seconds > SLOW_DECISION_S and self._watchdog is not None:
                    path = loaded.about.get("path")
                    self._watchdog.note(execution_id, path, self._turns.seconds)
                if loaded.state.spilled:
                    loaded.values.trim()
                return batch

    def _decide_all(self, batch: Batch, items: Sequence[InboxItem]) -> None:
        for item in items:
            _apply(item, batch)
        bound_log(batch, self._placement.ceilings.execution_events)

    async def _check_refusal(self, execution_id: str, after: int) -> None:
        """Raise ``LogConflict`` if items were refused on an outdated state, which no
        commit may find out."""
        if not self._store.shared:
            return
        if await self._store.read(execution_id, after=after, limit=1):
            raise LogConflict(f"execution {execution_id} has moved on")

    async def _catch_up(self, execution_id: str, loaded: LoadedExecution) -> None:
        """Apply the events that another server may have committed."""
        loaded.stale = False
        loaded.state = await catch_up(self._store, execution_id, loaded.state)

    async def _restore(
        self, execution_id: str, loaded: LoadedExecution, error: Exception
    ) -> None:
        """Fold the state again: the decision changed it, and was not committed.

        Raises ``_Unrestored`` if the store does not answer: nothing may be decided on
        that state any more, and the next access reads the execution again.
        """
        try:
            loaded.state = await fold(self._store, execution_id)
        except Exception:
            if self._cache.get(execution_id) is loaded:
                self._cache.drop(execution_id)
            raise _Unrestored(error) from None


class _Unrestored(Exception):
    """The state in memory is not that of the log; ``error`` is why it was left."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


def _forget_error(future: asyncio.Future[ReportAnswer]) -> None:
    if not future.cancelled():
        future.exception()


def _changes_store(item: InboxItem) -> bool:
    """Return whether the item needs a commit even if it records no event.

    A worker that must stop gives its lease back. The commit also finds out whether the
    state is outdated, on which a pause may seem to last.
    """
    stops = item.answer is not None and item.answer.stop
    return item.mends or item.disarm is not None or (item.lease is not None and stops)


def _apply(item: InboxItem, batch: Batch) -> None:
    """Decide. An error that recorded no event concerns this item alone."""
    batch.begin()
    before = len(batch.events)
    item.answer = item.error = None
    batch.begin()
    try:
        item.answer = ReportAnswer(stop=bool(item.decide(batch)))
    except NoetlError as error:
        if len(batch.events) > before:
            raise
        item.error = error


def _reply(item: InboxItem) -> None:
    """Resolve the caller's future with the answer or the error."""
    if item.error is not None:
        _refuse(item, item.error)
    elif not item.future.done():  # the caller may have been cancelled
        item.future.set_result(item.answer or ReportAnswer())


def _refuse(item: InboxItem, error: Exception) -> None:
    """Fail the caller's future."""
    if not item.future.done():
        item.future.set_exception(error)


def _refuse_all(items: Iterable[InboxItem], error: BaseException) -> None:
    """Fail the futures of all items; a cancelled task fails them as a closed store."""
    why = StoreError("the process is being stopped", "store.closed")
    for item in items:
        _refuse(item, error if isinstance(error, Exception) else why)
