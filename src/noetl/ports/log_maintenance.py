"""Care of whole logs: verification, listing, removal, and the file they are in."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal, Protocol

import msgspec

from noetl.ports.store import Snapshot, Store
from noetl.ports.transition import ConcurrencySlot, Summary, Timer


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


class CommandRecord(msgspec.Struct, frozen=True):
    """The row of a command. One that is ``held`` is ready, and its execution does not
    run."""

    command_id: str
    state: Literal["delayed", "ready", "held", "leased"]
    not_before: float
    epoch: int
    owner: str | None
    expires_at: float | None


class Records(msgspec.Struct, frozen=True):
    """The rows of one execution beside its log, all as of one moment.

    ``status`` is the column by which listings find the execution; ``tallies`` are by
    version and position.
    """

    last_seq: int
    status: str
    summary: Summary
    request_key: str | None = None
    commands: Sequence[CommandRecord] = ()
    timers: Sequence[Timer] = ()
    snapshot: Snapshot | None = None
    tallies: Sequence[tuple[int, int, bytes]] = ()
    slot: ConcurrencySlot | None = None


class Stray(msgspec.Struct, frozen=True):
    """A row that no check of one execution finds: its table, what it belongs to, and
    what is wrong with it."""

    table: str
    name: str
    message: str


class LogVerifier(Protocol):
    """Checks logs against their hash chains."""

    async def verify(self, execution_id: str) -> Damage | None:
        """Walk the hash chain; return the first damage. Raises ``StoreError``
        (``store.missing``)."""
        ...


class RecordReader(Protocol):
    """Reads the rows that stores keep beside the logs, for checks of them."""

    async def records(self, execution_id: str) -> Records:
        """Return the rows of an execution. Raises ``StoreError`` (``store.missing``,
        or ``store.corrupt`` for a row that cannot be decoded)."""
        ...

    async def strays(self, *, limit: int = 100) -> Sequence[Stray]:
        """Return rows of executions that do not exist, and concurrency keys with more
        holders than slots."""
        ...

    async def heads(self, *, after: int = 0, limit: int = 500) -> Sequence[LogHead]:
        """List executions in the order of their numbers, from above ``after``."""
        ...


class LogMaintenance(LogVerifier, RecordReader, Protocol):
    """Whole logs: check them, walk through all of them, remove old ones."""

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
