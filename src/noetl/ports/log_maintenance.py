"""Care of whole logs: verification, listing, removal, and the file they are in."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

import msgspec

from noetl.ports.store import Store
from noetl.ports.transition import Summary


class Damage(msgspec.Struct, frozen=True):
    """The first event at which a log differs from its hash chain."""

    seq: int
    message: str
    kind: str = "log.hash_mismatch"


class LogHead(msgspec.Struct, frozen=True):
    """The end of an execution's log, with its line in a listing."""

    number: int
    """Number of the execution in this store, in the order of their beginnings."""

    last_seq: int
    summary: Summary


class LogVerifier(Protocol):
    """Checks logs against their hash chains."""

    async def verify(self, execution_id: str) -> Damage | None:
        """Walk the hash chain; return the first damage. Raises ``StoreError``
        (``store.missing``)."""
        ...


class LogMaintenance(LogVerifier, Protocol):
    """Whole logs: check them, walk through all of them, remove old ones."""

    async def heads(self, *, after: int = 0, limit: int = 500) -> Sequence[LogHead]:
        """List executions in the order of their numbers, from above ``after``."""
        ...

    async def remove(self, execution_ids: Sequence[str]) -> None:
        """Remove finished executions as a whole: all of these or none.

        Raises ``StoreError``: ``store.missing``, or ``store.conflict`` for an
        unfinished execution.
        """
        ...


class LogFile(Protocol):
    """A store in a local file, which one process at a time may write to."""

    path: Path

    def has_open(self) -> bool:
        """Whether an execution in the file is unfinished."""
        ...

    def publish_address(self, address: str) -> None:
        """Publish, beside the file, the address at which its writer takes requests."""
        ...

    async def close(self) -> None:
        """Finish queued commits and unlock the file; a second call does nothing."""
        ...

    def close_now(self) -> None:
        """Unlock the file of a store in which nothing was written."""
        ...


class LocalStore(Store, LogMaintenance, LogFile, Protocol):
    """A complete store in a local file: what commands open without a server."""
