"""Stores of executions: one port for each kind of reader."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Annotated, NamedTuple, Protocol, TypeAlias

import msgspec

from noetl.engine.events import Event
from noetl.engine.state import ExecutionStatus
from noetl.ports.exports import ExportQueue
from noetl.ports.transition import NO_LABELS, Lease, Summary, Timer, Transition


class CommandRow(msgspec.Struct, frozen=True):
    """A command as a store has it: its execution, its pool and its lease."""

    execution_id: str
    pool: str
    epoch: int

    owner: str | None
    """Owner of the lease. None while offered."""

    held: bool
    """Whether ``owner`` has the lease at this moment."""

    reported: int
    """Number of the last report under this epoch."""

    unreported: int = 0
    """Claims in a row, up to the present one, whose owner has reported nothing."""

    @classmethod
    def read(
        cls,
        execution_id: str,
        pool: str,
        epoch: int,
        owner: str | None,
        held: bool,
        reported: int,
    ) -> CommandRow:
        """Read a stored row: below zero, ``reported`` counts claims without a
        report."""
        last, claims = max(reported, 0), max(-reported, 0)
        return cls(execution_id, pool, epoch, owner, held, last, claims)


class QueuedExecution(msgspec.Struct, frozen=True):
    """An unfinished execution that holds a slot of a concurrency key, or waits."""

    execution_id: str
    limit: int
    queued: bool


class Snapshot(msgspec.Struct, frozen=True):
    """The encoded state that the log adds up to at ``seq``."""

    seq: int
    body: bytes


class Claimed(list[Lease]):
    """Leases that a claim got.

    ``positions`` has the length of each execution's log at that moment, if other
    processes may write to the store.
    """

    positions: Mapping[str, int] = {}


class LogReader(Protocol):
    """Reads logs, one ordered stream of events for each execution."""

    @property
    def shared(self) -> bool:
        """Whether other processes may write to the store at the same time."""
        ...

    async def read(
        self, execution_id: str, *, after: int = 0, limit: int | None = None
    ) -> Sequence[Event]:
        """Return the events in order; ``seq`` starts at 1 and has no gaps."""
        ...

    def pages(
        self, execution_id: str, *, after: int = 0, size: int = 2_000
    ) -> AsyncIterator[Sequence[Event]]:
        """Iterate over the events in order, ``size`` at a time: a log may be larger
        than memory."""
        ...

    async def length(self, execution_id: str) -> int:
        """Return the position of the last event; 0 for an unknown execution."""
        ...

    async def snapshot(self, execution_id: str) -> Snapshot | None:
        """Return the last snapshot that a transition brought, if any."""
        ...


class Tallies(Protocol):
    """Sums of the events up to a position, kept to spare readers the whole log.

    They can be made again from the log at any time. ``version`` is that of the code
    that makes them: a tally of another version is not found.
    """

    async def tally(
        self, execution_id: str, version: int, *, at: int | None = None
    ) -> Snapshot | None:
        """Return the last tally at or before a position, or of the whole log."""
        ...

    async def keep_tally(
        self, execution_id: str, version: int, tally: Snapshot
    ) -> None:
        """Keep a tally; one for an unknown execution or position is ignored."""
        ...


class Backlog(NamedTuple):
    """Commands of a pool that are ready for a worker, and those that workers hold."""

    ready: int = 0
    leased: int = 0

    def add(self, state: str, count: int) -> Backlog:
        """Add the commands of one of the two states."""
        if state == "ready":
            return self._replace(ready=self.ready + count)
        return self._replace(leased=self.leased + count)


class Parked(NamedTuple):
    """An execution in which a pipeline waits, and the length of its log."""

    summary: Summary
    last_seq: int


class EventLog(LogReader, Protocol):
    """Append-only logs, which a commit extends together with all that follows."""

    async def commit(self, transitions: Sequence[Transition]) -> None:
        """Store all transitions or none; they are durable when this returns.

        Raises ``LogConflict`` if a log is not at ``after`` any more, ``LeaseLost`` if a
        reporting lease is not the current one of a command of this execution,
        ``RequestKnown`` if another execution has the request key, ``NoPlace`` if all
        slots of a concurrency key are taken or other executions wait for them,
        ``SetAside`` if the execution is quarantined.
        """
        ...

    async def check_writable(self) -> None:
        """Raise ``StoreError`` if nothing can be committed at this moment."""
        ...


class CommandQueue(Protocol):
    """Commands that wait for workers, and the leases on them."""

    async def claim(
        self,
        owner: str,
        *,
        pool: str,
        slots: int,
        now: float,
        ttl: float,
        waits: bool = False,
    ) -> Claimed:
        """Lease up to ``slots`` ready commands of a pool; with ``waits`` only such as
        need no slot (S-79).

        Families of executions (see ``ExecutionIndex.count_family``) take turns, and so
        do the executions of each family; the commands of an execution go out by their
        ``turn``, those that only wait before the others. The owner of a lease keeps all
        commands with the same affinity: other owners get none of them until ``ttl``
        after its last claim, or after the last ``renew`` of one of these leases.
        """
        ...

    async def renew(
        self, leases: Sequence[Lease], *, now: float, ttl: float
    ) -> Sequence[Lease]:
        """Extend leases; return those that are lost, or cannot be renewed because
        their execution is quarantined.

        A lease that names another execution than its command's counts as lost.
        """
        ...

    async def forgive(self, leases: Sequence[Lease]) -> None:
        """Reset the count of claims without a report: their owners are not at fault."""
        ...

    async def commands(self, command_ids: Sequence[str]) -> Mapping[str, CommandRow]:
        """Return the rows of these commands; ids of unknown commands, and of those that
        have ended, are left out."""
        ...

    async def held(self, owner: str) -> Sequence[Lease]:
        """Return all leases of an owner, also those whose claim was never answered."""
        ...

    async def count_commands(self) -> Mapping[str, Backlog]:
        """Count the commands that wait for a slot or have one, by pool."""
        ...

    async def oldest_ready(self) -> Mapping[str, float]:
        """Return for each pool the time since which its oldest command waits for a
        slot: when it was planned, or when its delay ended."""
        ...

    async def count_delayed(self, *, limit: int) -> Mapping[str, int]:
        """Count the commands that wait for a time or an answer, by pool, up to
        ``limit`` of them."""
        ...

    async def parked(self, *, limit: int) -> Sequence[Parked]:
        """Return open executions with commands that wait for a time or an answer, the
        newest first: those of the ``limit`` longest such waits."""
        ...


class CallLimit(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A limit of the calls of one key: a rate, whose calls are ``interval`` seconds
    apart with up to ``burst`` of them at once, or ``limit`` slots without an interval.
    """

    key: Annotated[str, msgspec.Meta(min_length=1, max_length=200)]
    limit: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 1
    interval: Annotated[float, msgspec.Meta(ge=0, le=100_000)] = 0.0
    burst: Annotated[int, msgspec.Meta(ge=1, le=1_000)] = 1


class CallLimits(Protocol):
    """Rates and slots of calls, for all workers of the store."""

    async def permit(
        self, lease: Lease, limits: Sequence[CallLimit], *, now: float
    ) -> float:
        """Permit one call under a lease; return 0, or the time at which to ask again.

        A permitted call takes one call of each rate, and its slots until the next call
        of ``permit`` under the lease, or the end of the lease. Raises ``LeaseLost``.
        """
        ...


IdlePage: TypeAlias = tuple[Sequence[tuple[str, int]], int]
"""Executions, each with the end of its log, and the number to continue after."""


class Timers(Protocol):
    """Moments at which leases expire and executions must be looked at."""

    async def sweep(self, *, now: float) -> Sequence[Timer]:
        """Offer commands of expired leases again; return the timers that are due.

        A due timer stays armed until a transition or ``disarm`` deletes it.
        """
        ...

    async def idle(self, *, after: int, limit: int) -> IdlePage:
        """Look at open executions after a number, at most so many; return those without
        a command, a timer or a place in a queue, each with the end of its log, and the
        number to continue after (0: from the beginning)."""
        ...

    async def disarm(self, timer: Timer) -> None:
        """Delete a timer of a finished execution, which no later transition can
        delete."""
        ...


class ExecutionIndex(Protocol):
    """Listing of all executions, by id, status, request and family."""

    async def find(
        self,
        *,
        status: ExecutionStatus | None = None,
        before: str | None = None,
        limit: int = 100,
        labels: Mapping[str, str] = NO_LABELS,
    ) -> Sequence[Summary]:
        """List executions, newest first, that began before the execution ``before``.

        ``before`` may be unknown to this store: then the order of ids decides.
        ``labels`` are those that an execution must have, with these values.
        """
        ...

    async def summary(self, execution_id: str) -> Summary:
        """Return the line of an execution.

        Raises ``StoreError`` (``store.missing``).
        """
        ...

    async def find_request(self, request_key: str) -> str | None:
        """Return the id of the execution that answers a request, if there is one."""
        ...

    async def resolve(self, part: str, *, limit: int = 10) -> Sequence[str]:
        """Return the ids that begin with a text, or, if there are none, that end with
        it; a complete id stands for itself alone."""
        ...

    async def set_status(self, summary: Summary) -> None:
        """Replace the line of an unfinished execution without an event.

        The status ``quarantined`` hides its commands and timers, and lets commits raise
        ``SetAside``; any other status reverses that. Its leases are not renewed, and
        stay until they expire: no other worker gets their commands before. A finished
        execution is left as it is. Raises ``StoreError`` (``store.missing``).
        """
        ...

    async def count_family(self, execution_id: str, *, limit: int) -> int:
        """Count the unfinished executions of a family, up to ``limit``.

        A family is a root and all executions that descend from it, as
        ``Summary.parent_id`` says at the beginning of each. The root is not counted.
        """
        ...


class ExecutionHistory(LogReader, ExecutionIndex, Protocol):
    """Logs and their listing: the port of queries."""


class ConcurrencyIndex(Protocol):
    """Slots of concurrency keys."""

    async def slots_of(self, key: str) -> Sequence[QueuedExecution]:
        """Return the executions that hold a slot of the key or wait for one, in the
        order of arrival."""
        ...


class Store(
    EventLog,
    CommandQueue,
    CallLimits,
    Timers,
    ExecutionIndex,
    ConcurrencyIndex,
    ExportQueue,
    Tallies,
    Protocol,
):
    """All ports that an orchestrator needs: for the wiring, which passes it on."""
