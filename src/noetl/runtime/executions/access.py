"""Opens executions, decides on them, and continues those of other processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from noetl.engine.decide import no_decision
from noetl.engine.state import ExecutionStatus, State, commands_of
from noetl.engine.steps.completion import cancel
from noetl.ports import Store
from noetl.runtime.dispatcher import Wakeup
from noetl.runtime.executions.after_commit import WakeWorkers
from noetl.runtime.executions.cache import ExecutionCache
from noetl.runtime.executions.inbox import ExecutionInbox
from noetl.runtime.executions.loaded import LoadedExecution
from noetl.runtime.executions.quarantine import Quarantine
from noetl.types import JSON

AfterLoad = Callable[[str, LoadedExecution], None]
"""Called when an execution was read from its log."""


class Executions:
    """The executions of the store: loads them into the cache, and decides on them
    through the inbox."""

    def __init__(
        self,
        store: Store,
        cache: ExecutionCache,
        inbox: ExecutionInbox,
        quarantine: Quarantine,
        after_load: Sequence[AfterLoad],
    ) -> None:
        self.cache = cache
        self.enqueue = inbox.enqueue
        self._store = store
        self._quarantine = quarantine
        self._after_load = after_load

    async def load(self, execution_id: str) -> State:
        """Return the state of an execution; read it from its log if need be.

        Raises ``SetAside`` if a server cannot read it, and ``OutOfOrder`` if it ended
        and was evicted at once.
        """
        await self._read(execution_id)
        return self.cache[execution_id].state

    async def _read(self, execution_id: str) -> bool:
        """Read an execution from its log if need be; return whether this call did."""
        if execution_id in self.cache:
            return False
        async with self._quarantine.guard(execution_id):
            loaded = await self.cache.load(execution_id)
            if loaded is None:
                return False
            for react in self._after_load:
                react(execution_id, loaded)
        return True

    async def refresh(self, execution_id: str) -> None:
        """Load an execution, or apply what other processes have committed."""
        is_new = await self._read(execution_id)
        loaded = self.cache.get(execution_id)
        if loaded is None:  # a child may have ended, and be evicted
            return
        # Decisions may not be stored yet, and stored events not be loaded.
        if loaded.busy or (self._store.shared and not is_new):
            loaded.stale = self._store.shared
            await self.enqueue(execution_id, no_decision)

    async def cancel(
        self, execution_id: str, error: dict[str, JSON] | None = None
    ) -> None:
        """Cancel a loaded execution. Raises ``OutOfOrder``."""
        await self.enqueue(execution_id, partial(cancel, error=error))


class Recovery:
    """Loads executions that this process did not start, and wakes the workers."""

    def __init__(
        self,
        executions: Executions,
        quarantine: Quarantine,
        wakeup: Wakeup,
        wake_workers: WakeWorkers,
    ) -> None:
        self._executions = executions
        self._cache = executions.cache
        self._quarantine = quarantine
        self._wakeup = wakeup
        self._wake_workers = wake_workers

    async def resume_from_log(self, execution_id: str) -> None:
        """Load an execution that was stored as a whole, such as a fork."""
        state = await self._executions.load(execution_id)
        if state.finished:
            self._cache.evict(execution_id)
            return
        self._wakeup.notify()
        loaded = self._cache[execution_id]
        self._wake_workers.wake_servers(loaded, commands_of(state))

    async def release_quarantine(self, execution_id: str) -> ExecutionStatus:
        """Continue with a quarantined execution, and make lost rows of it again. Raises
        ``SetAside`` if it still cannot be read."""
        self._cache.drop(execution_id)
        state = await self._executions.load(execution_id)
        status = await self._quarantine.release(state)
        if not state.finished:
            await self._executions.enqueue(execution_id, no_decision, mends=True)
        self._wakeup.notify()
        return status
