"""The log, what it makes due, and who may run what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, Protocol

import msgspec

from noetl.engine.document import elapsed_ms
from noetl.engine.events import Event
from noetl.engine.state import ExecutionStatus
from noetl.types import JSON


class Command(msgspec.Struct, frozen=True):
    """A pipeline that waits for a worker: a step run or one iteration of it.

    ``command_id`` is derived (``step_run_id`` or ``iteration_id``), so planning again
    gives the same command. ``not_before`` is in seconds since the epoch. Commands with
    the same ``together`` are for one owner: see ``Store.claim``.
    """

    command_id: str
    execution_id: str
    pool: str = "default"
    not_before: float = 0.0
    together: str | None = None


Name = Annotated[str, msgspec.Meta(pattern=r"^[!-~]{1,400}(?!\n)$")]
"""What names something to a store, where it comes from outside."""


class Lease(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The right to run a command: ``epoch`` grows with every claim of it."""

    command_id: Name
    execution_id: Name
    owner: Name
    epoch: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]


class CommandRow(msgspec.Struct, frozen=True):
    """What a store knows of a command: its execution, its pool, and its lease.

    ``owner`` has the lease while it is ``held``. Of a command that has ended it is the
    last owner; one that is offered again has none. ``reported`` is the number of the
    last report under this epoch. ``unreported`` counts the claims in a row, up to the
    present one, under which the owner reported nothing.
    """

    execution_id: str
    pool: str
    epoch: int
    owner: str | None
    held: bool
    reported: int
    unreported: int = 0

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
        """A row as stores keep it: below zero, ``reported`` counts claims without a
        report."""
        last, claims = max(reported, 0), max(-reported, 0)
        return cls(execution_id, pool, epoch, owner, held, last, claims)


class Timer(msgspec.Struct, frozen=True):
    """One of the kind ``finished`` is armed by an execution's end, and outlives it.

    One of the kind ``place`` is armed by the store itself, for the execution that is
    the next to take a place of its key.
    """

    execution_id: str
    timer_id: str
    due_at: float
    kind: Literal["deadline", "delay", "wait", "family", "finished", "place"]


class Place(msgspec.Struct, frozen=True):
    """One of the ``limit`` places of a key; a ``queued`` execution waits for it."""

    key: str
    limit: int
    queued: bool = False


class Standing(msgspec.Struct, frozen=True):
    """An execution that is not over, and has a place of a key or waits for one."""

    execution_id: str
    limit: int
    queued: bool


class Summary(msgspec.Struct, frozen=True):
    """The line of an execution in a listing.

    ``concurrency`` is there if it has a key: ``queued`` until it has a place.
    """

    execution_id: str
    status: ExecutionStatus
    playbook: dict[str, JSON]
    started_at: str
    finished_at: str | None = None
    error: dict[str, JSON] | None = None
    parent_id: str | None = None
    forked_from: dict[str, JSON] | None = None
    concurrency: dict[str, JSON] | None = None


def summary_document(summary: Summary) -> dict[str, JSON]:
    """The line as ``noetl list --json`` and the API have it."""
    line: dict[str, JSON] = msgspec.to_builtins(summary)
    line["duration_ms"] = elapsed_ms(summary.started_at, summary.finished_at or "")
    return line


class Grant(msgspec.Struct, frozen=True):
    """Commands of a transition that have an owner from the start.

    Whoever reports may take what its report made ready, without a claim.
    """

    leases: Sequence[Lease]
    expires_at: float


class Transition(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that one settlement changes: it is stored whole, or not at all.

    ``after`` is the position the decision was made on. ``bodies`` are the events as
    they are stored, where whoever decided has encoded them already. ``leases`` are
    those of the workers whose reports caused it; each must be held. ``reported`` are
    the numbers of these reports, by their commands. ``done`` ends and forgets commands,
    ``release`` gives leases back; one that is in ``commands``, too, is planned again
    for its new ``not_before``. ``snapshot`` is the state after the last of the events,
    for a faster start: it replaces an earlier one. ``notify`` arms timers of its
    relatives, callers and called, as far as they are open: they look what has become
    of it. ``history`` are events, encoded, that a new execution begins with: those up
    to ``after``. ``request_key`` is the one of the request that a new execution
    answers: no other execution ever has it. ``place`` is taken, waited for, or given
    back by the end; whoever is the next to take it is told by a timer.
    """

    execution_id: str
    after: int
    events: Sequence[Event]
    summary: Summary
    bodies: Sequence[bytes] | None = None
    leases: Sequence[Lease] = ()
    reported: Mapping[str, int] = {}
    commands: Sequence[Command] = ()
    grant: Grant | None = None
    done: Sequence[str] = ()
    release: Sequence[str] = ()
    timers: Sequence[Timer] = ()
    disarm: Sequence[str] = ()
    notify: Sequence[Timer] = ()
    snapshot: bytes | None = None
    history: Sequence[bytes] = ()
    request_key: str | None = None
    place: Place | None = None


class Snapshot(msgspec.Struct, frozen=True):
    """A state that need not be folded again: what the log added up to at ``seq``."""

    seq: int
    body: bytes


class Claimed(list[Lease]):
    """Leases that a claim got. ``positions`` says where the logs of their executions
    were at that moment, if others may write to them."""

    positions: Mapping[str, int] = {}


class Store(Protocol):
    """Append-only history, and what it makes due; one ordered stream per execution.

    ``shared`` says that other processes may write to it at the same time.
    """

    shared: bool

    async def commit(self, transitions: Sequence[Transition]) -> None:
        """Fence, events, commands and timers of all of them: durable when it returns.

        Raises ``LogConflict`` if a stream has moved past ``after``, ``LeaseLost`` if
        a reporting lease is not the current one of a command of this execution, or
        names another execution, ``RequestKnown`` if a request key has
        an execution already, ``NoPlace`` if the places of a key are taken or others
        wait for them; then nothing of the group is stored.
        """
        ...

    async def places(self, key: str) -> Sequence[Standing]:
        """Who has a place of the key or waits for one, in the order of arrival."""
        ...

    async def read(
        self, execution_id: str, *, after: int = 0, limit: int | None = None
    ) -> Sequence[Event]:
        """The events in order; ``seq`` starts at 1 and has no gaps."""
        ...

    async def length(self, execution_id: str) -> int:
        """The position of the last event; 0 if there is none."""
        ...

    async def snapshot(self, execution_id: str) -> Snapshot | None:
        """The last one that a transition brought, if any did."""
        ...

    async def claim(
        self, owner: str, *, pool: str, slots: int, now: float, ttl: float
    ) -> Claimed:
        """Lease up to ``slots`` ready commands, fairly between executions.

        Whoever has a lease of what belongs ``together`` keeps the rest of it: others
        get none of that until ``ttl`` after its last claim, or the last ``renew`` of
        one of these leases.
        """
        ...

    async def renew(
        self, leases: Sequence[Lease], *, now: float, ttl: float
    ) -> Sequence[Lease]:
        """Extend leases; those that are lost are returned.

        A lease that names another execution than its command's counts as lost.
        """
        ...

    async def commands(self, command_ids: Sequence[str]) -> Mapping[str, CommandRow]:
        """What is known of these commands; those that do not exist are left out."""
        ...

    async def forgive(self, leases: Sequence[Lease]) -> None:
        """Do not count these claims without a report: their owners did no harm."""
        ...

    async def held(self, owner: str) -> Sequence[Lease]:
        """The leases of an owner, also those that it never heard of."""
        ...

    async def sweep(self, *, now: float) -> Sequence[Timer]:
        """Make commands of expired leases ready again; return the timers that are due.

        A due timer stays armed until a transition disarms it, or ``disarm``.
        """
        ...

    async def disarm(self, timer: Timer) -> None:
        """Of what is over, there are no more transitions that would."""
        ...

    async def mark(self, summary: Summary) -> None:
        """Change the line of an execution that is not over, without an event.

        With the status ``quarantined`` its leases end, nothing of it is offered or
        due, and commits raise ``SetAside``; with another one it goes on.
        """
        ...

    async def find(
        self,
        *,
        status: ExecutionStatus | None = None,
        before: str | None = None,
        limit: int = 100,
    ) -> Sequence[Summary]:
        """Executions, newest first; ``before`` is the last id of the page before.

        One that is not here counts by its place in the order of ids.
        """
        ...

    async def summary(self, execution_id: str) -> Summary:
        """The line of one execution. Raises ``StoreError`` (``store.missing``)."""
        ...

    async def find_request(self, request_key: str) -> str | None:
        """The execution that answers a request, if there is one."""
        ...
