"""Between workers and their dispatcher: work items, answers to reports, wake-ups, and
the interfaces of both sides."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol
from weakref import WeakKeyDictionary

import msgspec

from noetl.dsl.model import Playbook
from noetl.engine.reports.accept import Fact
from noetl.engine.runs import Progress
from noetl.engine.secrets.handles import Secrets
from noetl.engine.state import Frame
from noetl.engine.values.references import Values
from noetl.ports import Blob, CallLimit, Lease, TaskPlace
from noetl.runtime.event_loop import Turns
from noetl.types import JSON


class WorkItem(msgspec.Struct, frozen=True):
    """A leased pipeline with everything that a worker needs to continue it.

    ``begun``: the start of its first task is in the log already; ``source``
    is the key of the stored playbook text.
    """

    lease: Lease
    playbook: Playbook
    frame: Frame
    progress: Progress
    secrets: Secrets
    source: str = ""
    folder: str | None = None
    begun: bool = False


class ReportAnswer(msgspec.Struct):
    """The answer to a report: ``stop`` ends the pipeline at this worker, ``work`` is
    the worker's next pipeline.

    ``ctx`` holds the values that other pipelines have written (S-20); ``spilled``: it
    may hold references (S-48).
    """

    stop: bool = False
    ctx: dict[str, JSON] | None = None
    work: WorkItem | None = None
    spilled: bool = False


class Prefetch(msgspec.Struct, frozen=True):
    """The owner of a free slot and its pool: a commit that makes a pipeline of this
    pool ready leases it to this owner."""

    owner: str
    pool: str


class Wakeup:
    """Wakes the listeners of this process.

    Each listener has its own event and clears it before it looks for work. ``count``
    is the number of wake-ups so far: a caller that compares it knows whether it missed
    one.
    """

    def __init__(self) -> None:
        self.count = 0
        # Woken in the order in which they began to listen.
        self._listeners: WeakKeyDictionary[asyncio.Event, None] = WeakKeyDictionary()

    def listen(self) -> asyncio.Event:
        """Return a new event that each wake-up sets, as long as the caller keeps it."""
        listener = asyncio.Event()
        self._listeners[listener] = None
        return listener

    def notify(self) -> None:
        """Set the events of all listeners."""
        self.count += 1
        for listener in self._listeners:
            listener.set()


class WakeupBus(Protocol):
    """Wakes other servers. The store decides what is done: a lost wake-up delays work
    for a moment, a superfluous one does no harm."""

    def wake(self, pools: Collection[str]) -> None:
        """Announce stored work of these pools. Never waits, never fails."""
        ...


class Worker(Protocol):
    """An executor of pipelines, as the dispatcher sees it."""

    def revoke(self, commands: Sequence[str]) -> None:
        """Stop the tools of these commands, which have ended."""
        ...

    def stop(self, execution_id: str) -> None:
        """Stop the tools of a cancelled execution."""
        ...

    def reserve(self) -> str | None:
        """Reserve a free slot for ``take``, and return its owner's name; None if all
        are busy.
        """
        ...

    def take(self, work: WorkItem | None) -> None:
        """Start this work in the reserved slot; None frees the slot."""
        ...


class TokenGiver(Protocol):
    async def authorize(
        self, at: TaskPlace, auth: Mapping[str, JSON], *, fresh: bool
    ) -> dict[str, JSON]:
        """Return a token for ``auth: {type: oauth2, …}``. Raises ``SecretError``."""
        ...


class TaskValues(Protocol):
    """The stored values that one pipeline may read and write (I-36).

    ``drafts`` is a local folder for values that are still being written.
    """

    @property
    def drafts(self) -> str: ...

    async def put(self, data: bytes) -> None:
        """Store a value; it is durable when this returns."""
        ...

    async def adopt(self, file: str) -> Blob:
        """Store the content of a draft of any size, and remove the draft."""
        ...

    def file(self, key: str) -> AbstractAsyncContextManager[str]:
        """Open a stored value as a temporary file.

        Entering it raises ``BlobNotOwned``, ``BlobGone`` or ``BlobCorrupt``.
        """
        ...

    async def supply(self, references: Sequence[JSON], values: Values) -> None:
        """Read references. A value that is gone or not readable becomes an error at its
        use.
        """
        ...

    async def close(self) -> None:
        """Release resources: the pipeline has ended, or another worker continues it."""
        ...


class Dispatcher(Protocol):
    """The source of work items, and the receiver of reports."""

    @property
    def ttl(self) -> float: ...
    @property
    def time_slice(self) -> float:
        """Seconds for which a slot may take pipelines without a claim; claims serve
        other steps and executions."""
        ...

    @property
    def is_alone(self) -> bool:
        """Return whether this process runs one execution, which gets its errors."""
        ...

    @property
    def wakeup(self) -> Wakeup: ...
    @property
    def turns(self) -> Turns:
        """The turns in which templates of pipelines are evaluated."""
        ...

    @property
    def tokens(self) -> TokenGiver: ...

    def register(self, worker: Worker) -> None:
        """Give first steps to this worker, and stop it on ended commands."""
        ...

    async def claim(
        self, owner: str, slots: int, *, waits: bool = False
    ) -> Sequence[WorkItem]:
        """Lease ready pipelines; return their work items. With ``waits`` only those
        that need no slot, and without waiting for one."""
        ...

    async def report(
        self, lease: Lease, facts: Sequence[Fact], *, wants: str | None = None
    ) -> ReportAnswer:
        """Record facts. Raises ``LeaseLost`` or ``OutOfOrder``: the pipeline must stop.

        ``wants`` is an owner that takes a pipeline which the report makes ready.
        """
        ...

    async def permit(self, lease: Lease, limits: Sequence[CallLimit]) -> float:
        """Ask for one call under these limits; without limits, free the slots of the
        last one. Return 0, or the seconds until it may ask again. Raises
        ``LeaseLost``."""
        ...

    async def renew(self, leases: Sequence[Lease]) -> Sequence[Lease]:
        """Extend leases; return those that were lost."""
        ...

    async def release(self, leases: Sequence[Lease]) -> None:
        """Give leases back: another worker may continue at once."""
        ...

    async def values_for(self, work: WorkItem) -> TaskValues:
        """Return where a pipeline stores large values, and reads references."""
        ...

    def is_stopped(self, lease: Lease) -> bool:
        """Return whether the tool of this lease must not be called any more.

        Raises ``LeaseLost`` if another worker may get the lease at any moment.
        """
        ...
