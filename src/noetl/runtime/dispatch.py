"""What an executor needs of whoever decides, in this process or on a server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from noetl.engine.references import Values
from noetl.engine.reports import Fact
from noetl.ports import Blob, Lease, TaskPlace
from noetl.runtime.bell import Bell
from noetl.runtime.live import Answer, Work
from noetl.runtime.turns import Turns
from noetl.types import JSON


class Worker(Protocol):
    """Who runs pipelines."""

    def revoke(self, commands: Sequence[str]) -> None:
        """These are over: stop what still runs of them."""
        ...

    def stop(self, execution_id: str) -> None:
        """The execution is cancelled: stop its tools."""
        ...

    def reserve(self) -> str | None:
        """Keep a slot free for ``take``, if there is one: its owner's name."""
        ...

    def take(self, work: Work | None) -> None:
        """What the slot was kept for, if it came to that."""
        ...


class TokenGiver(Protocol):
    async def authorize(
        self, at: TaskPlace, auth: Mapping[str, JSON], *, fresh: bool
    ) -> dict[str, JSON]:
        """A token for ``auth: {type: oauth2, …}``. Raises ``SecretError``."""
        ...


class Shelf(Protocol):
    """The stored values of one pipeline: nobody else's can be read (I-36).

    ``drafts`` is a folder on this machine for values that are still being written.
    """

    drafts: str

    async def put(self, data: bytes) -> None:
        """Store a value; durable when it returns."""
        ...

    async def adopt(self, file: str) -> Blob:
        """The same for what a draft holds, however large. Then the draft is gone."""
        ...

    def file(self, key: str) -> AbstractAsyncContextManager[str]:
        """A file with a stored value, for a while.

        Raises ``BlobNotOwned``, ``BlobGone`` or ``BlobCorrupt`` when it is entered.
        """
        ...

    async def supply(self, references: Sequence[JSON], values: Values) -> None:
        """What references stand for; what is gone, or not its own, is an error for
        whoever reads it."""
        ...

    async def close(self) -> None:
        """The pipeline is over, or goes on elsewhere."""
        ...


class Dispatcher(Protocol):
    """Gives work out, and takes reports."""

    @property
    def ttl(self) -> float: ...
    @property
    def turn(self) -> float | None:
        """Seconds in which a slot takes one pipeline after the other without a claim:
        by a claim it is another execution's turn. None if there are no others."""
        ...

    @property
    def bell(self) -> Bell: ...
    @property
    def turns(self) -> Turns:
        """In which templates of pipelines are evaluated, too."""
        ...

    @property
    def tokens(self) -> TokenGiver: ...

    def employ(self, worker: Worker) -> None:
        """Tell this one what it must stop."""
        ...

    async def claim(self, owner: str, slots: int) -> Sequence[Work]:
        """Lease ready pipelines and say where each of them stands."""
        ...

    async def report(
        self, lease: Lease, facts: Sequence[Fact], *, wants: str | None = None
    ) -> Answer:
        """Record facts. Raises ``LeaseLost`` or ``OutOfOrder``: then it is over here.

        ``wants`` is an owner that takes a pipeline which the report makes ready.
        """
        ...

    async def renew(self, leases: Sequence[Lease]) -> Sequence[Lease]:
        """Extend leases; those that were lost."""
        ...

    async def release(self, leases: Sequence[Lease]) -> None:
        """Nobody works on these: somebody may go on at once."""
        ...

    async def shelf_of(self, work: Work) -> Shelf:
        """Where a pipeline stores what is too large, and reads what it refers to."""
        ...

    def is_stopped(self, lease: Lease) -> bool:
        """Whether its tool must not be called any more."""
        ...
