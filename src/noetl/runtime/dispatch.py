"""What an executor needs of whoever decides, in this process or on a server."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from noetl.engine.references import Values
from noetl.engine.reports import Fact
from noetl.ports import Blobs, Lease
from noetl.runtime.bell import Bell
from noetl.runtime.live import Answer, Work
from noetl.types import JSON


class Worker(Protocol):
    """Who runs pipelines."""

    def revoke(self, commands: Sequence[str]) -> None:
        """These are over: stop what still runs of them."""
        ...

    def stop(self, execution_id: str) -> None:
        """The execution is cancelled: stop its tools."""
        ...


class TokenGiver(Protocol):
    async def authorize(
        self, execution_id: str, auth: Mapping[str, JSON], *, fresh: bool
    ) -> dict[str, JSON]:
        """A token for ``auth: {type: oauth2, …}``. Raises ``SecretError``."""
        ...


class Dispatcher(Protocol):
    """Gives work out, and takes reports."""

    @property
    def ttl(self) -> float: ...
    @property
    def bell(self) -> Bell: ...
    @property
    def blobs(self) -> Blobs: ...
    @property
    def keys(self) -> TokenGiver: ...

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

    async def supply(
        self, lease: Lease, references: Sequence[JSON], values: Values
    ) -> None:
        """Values that are stored elsewhere; one that is gone is an error for whoever
        reads it."""
        ...

    def is_stopped(self, lease: Lease) -> bool:
        """Whether its tool must not be called any more."""
        ...
