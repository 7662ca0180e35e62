"""Sets executions aside that cannot be loaded or decided, and releases them (I-38)."""

from __future__ import annotations

import hashlib
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec

from noetl.engine.reports.accept import OutOfOrder
from noetl.engine.state import ExecutionStatus, State, status_of
from noetl.errors import SetAside, StoreError
from noetl.ports import Store
from noetl.runtime.executions.cache import ExecutionCache
from noetl.types import JSON

PASSING = frozenset(
    {
        SetAside.kind,
        "lease.lost",
        "request.known",
        "event.too_large",
        "secret.unreachable",
        "store.busy",
        "store.closed",
        "store.conflict",
        "store.denied",
        "store.full",
        "store.io",
        "store.locked",
        "store.missing",
        "store.unreachable",
    }
)
"""Errors that do not concern the execution: the same request may succeed later."""


OnError = Callable[[str, Exception], None]
"""Called with the execution and its error; the other executions continue."""


class Quarantine:
    """Sets executions aside that a server cannot load or decide (I-38).

    Without a server (``is_server``) errors are raised to the user.
    """

    def __init__(
        self, store: Store, cache: ExecutionCache, on_error: OnError, *, is_server: bool
    ) -> None:
        self._store = store
        self._cache = cache
        self._on_error = on_error
        self._is_server = is_server

    @asynccontextmanager
    async def guard(self, execution_id: str) -> AsyncIterator[None]:
        """Set the execution aside for a defect in the block, and raise ``SetAside``."""
        try:
            yield
        except Exception as error:
            await self.judge(execution_id, error)
            raise

    async def judge(self, execution_id: str, error: Exception) -> None:
        """Set the execution aside, and raise ``SetAside``, if the error is a defect;
        do nothing otherwise."""
        if not self._is_server or not is_defect(error):
            return
        self._cache.drop(execution_id)
        try:
            why = await self._begin(execution_id, error)
        finally:
            self._on_error(execution_id, error)
        raise SetAside(f"execution {execution_id}: {why}") from error

    @asynccontextmanager
    async def apart(self, execution_id: str) -> AsyncIterator[None]:
        """Keep an error of this execution away from the others; a server continues."""
        try:
            async with self.guard(execution_id):
                yield
        except SetAside:
            self._cache.drop(execution_id)
        except Exception as error:
            unreachable = (
                isinstance(error, StoreError) and error.kind == "store.unreachable"
            )
            if unreachable or not self._is_server:
                raise
            self._cache.drop(execution_id)
            self._on_error(execution_id, error)

    async def release(self, state: State) -> ExecutionStatus:
        """Restore the status of an execution that can be loaded again."""
        summary = await self._store.summary(state.execution_id)
        status = status_of(state)
        fresh = msgspec.structs.replace(summary, status=status, error=state.error)
        await self._store.set_status(fresh)
        return status

    async def _begin(self, execution_id: str, error: Exception) -> str:
        """Mark the execution as quarantined, with the reason; return the message."""
        defect = number_of(error)
        said = f"{type(error).__name__}: {error}"[:500]
        message = f"it is set aside: {said} (defect {defect} in the server's log)"
        summary = await self._store.summary(execution_id)
        if summary.finished_at is None:
            why: dict[str, JSON] = {
                "kind": SetAside.kind,
                "message": message,
                "details": {"defect": defect},
            }
            marked = msgspec.structs.replace(summary, status="quarantined", error=why)
            await self._store.set_status(marked)
        return message


def is_defect(error: Exception) -> bool:
    """Return whether the execution would meet the same error again."""
    if isinstance(error, OutOfOrder | TimeoutError | OSError):
        return False
    return getattr(error, "kind", None) not in PASSING


def number_of(error: BaseException) -> str:
    """Return the number of a defect: the same for every execution that meets it."""
    frames = traceback.extract_tb(error.__traceback__)
    places = [
        f"{frame.filename.rpartition('noetl')[2]}:{frame.name}" for frame in frames
    ]
    text = "\n".join([type(error).__name__, *places])
    return hashlib.sha256(text.encode()).hexdigest()[:12]
