"""Executions that cannot be read or decided: set aside, seen, and taken back (I-38)."""

from __future__ import annotations

import hashlib
import traceback
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Protocol

import msgspec

from noetl.engine.reports import OutOfOrder
from noetl.engine.runs import status_of
from noetl.engine.state import ExecutionStatus, State
from noetl.errors import SetAside, StoreError
from noetl.ports import Store
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
"""Errors that say nothing about an execution: whoever asks again may be served."""


class Host(Protocol):
    """What a quarantine needs of the orchestrator."""

    store: Store
    trouble: Callable[[str, Exception], None]

    @property
    def is_server(self) -> bool: ...
    def drop(self, execution_id: str) -> None: ...


class Quarantine:
    """For servers alone: one process that works for itself says what is wrong."""

    def __init__(self, host: Host) -> None:
        self._host = host

    @asynccontextmanager
    async def guard(self, execution_id: str) -> AsyncIterator[None]:
        """Set the execution aside if it cannot be gone on with: then ``SetAside``."""
        try:
            yield
        except Exception as error:
            await self.judge(execution_id, error)
            raise

    async def judge(self, execution_id: str, error: Exception) -> None:
        """Set the execution aside for this error, if it is one to do so for: then
        ``SetAside``."""
        if not self._host.is_server or not is_defect(error):
            return
        self._host.drop(execution_id)
        try:
            why = await self._begin(execution_id, error)
        finally:
            self._host.trouble(execution_id, error)
        raise SetAside(f"execution {execution_id}: {why}") from error

    @asynccontextmanager
    async def apart(self, execution_id: str) -> AsyncIterator[None]:
        """What is wrong with one execution of a server concerns no other."""
        try:
            async with self.guard(execution_id):
                yield
        except SetAside:
            self._host.drop(execution_id)
        except Exception as error:
            away = isinstance(error, StoreError) and error.kind == "store.unreachable"
            if away or not self._host.is_server:
                raise
            self._host.drop(execution_id)
            self._host.trouble(execution_id, error)

    async def end(self, state: State) -> ExecutionStatus:
        """It can be read again, and goes on where it was."""
        store = self._host.store
        summary = await store.summary(state.execution_id)
        status = status_of(state)
        fresh = msgspec.structs.replace(summary, status=status, error=state.error)
        await store.mark(fresh)
        return status

    async def _begin(self, execution_id: str, error: Exception) -> str:
        """Offer nothing of it any more; whoever looks sees why."""
        defect = number_of(error)
        said = f"{type(error).__name__}: {error}"[:500]
        message = f"it is set aside: {said} (defect {defect} in the server's log)"
        summary = await self._host.store.summary(execution_id)
        if summary.finished_at is None:
            why: dict[str, JSON] = {
                "kind": SetAside.kind,
                "message": message,
                "details": {"defect": defect},
            }
            marked = msgspec.structs.replace(summary, status="quarantined", error=why)
            await self._host.store.mark(marked)
        return message


def is_defect(error: Exception) -> bool:
    """Whether going on with the execution would only meet the same error again."""
    if isinstance(error, OutOfOrder | TimeoutError | OSError):
        return False
    return getattr(error, "kind", None) not in PASSING


def number_of(error: BaseException) -> str:
    """One defect has one number, whichever execution meets it."""
    frames = traceback.extract_tb(error.__traceback__)
    places = [
        f"{frame.filename.rpartition('noetl')[2]}:{frame.name}" for frame in frames
    ]
    text = "\n".join([type(error).__name__, *places])
    return hashlib.sha256(text.encode()).hexdigest()[:12]
