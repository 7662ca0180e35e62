"""Transition: everything that one decision changes, and the records it is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Annotated, Literal

import msgspec

from noetl.engine.events import Event
from noetl.engine.execution_document import elapsed_ms
from noetl.engine.state import ExecutionStatus
from noetl.types import JSON

Name = Annotated[str, msgspec.Meta(pattern=r"^[!-~]{1,400}(?!\n)$")]
"""An identifier that a client sends: printable ASCII without spaces."""


class Command(msgspec.Struct, frozen=True):
    """A pipeline that waits for a worker: a step run, or one iteration of a loop."""

    command_id: str
    """``step_run_id`` or ``iteration_id``: planning again gives the same command."""

    execution_id: str

    pool: str = "default"
    """Worker pool that may claim the command."""

    not_before: float = 0.0
    """Earliest claim, in seconds since the epoch; 0 means at once."""

    affinity: str | None = None
    """Commands with the same affinity go to one owner: see ``CommandQueue.claim``."""

    turn: int | None = None
    """Place among the ready commands of the execution. None is the position of the log,
    or the earlier place of a command that is planned again. Step runs take turns
    because their commands have interleaved places."""

    waits: bool = False
    """Whether the command only waits, so that it needs no slot of a worker."""


class Lease(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The right of one owner to run a command."""

    command_id: Name
    execution_id: Name
    owner: Name

    epoch: Annotated[int, msgspec.Meta(ge=0, le=2**31 - 1)]
    """Grows with every claim of the command: an earlier epoch is fenced off."""


class Grant(msgspec.Struct, frozen=True):
    """Leases on commands of the same transition.

    The worker whose report made the commands ready gets them without a claim.
    """

    leases: Sequence[Lease]
    expires_at: float


class Timer(msgspec.Struct, frozen=True):
    """A moment at which the runtime must look at an execution."""

    execution_id: str

    timer_id: str
    """Unique within the execution: arming it again replaces the earlier timer."""

    due_at: float

    kind: Literal["deadline", "delay", "wait", "family", "finished", "place", "export"]
    """``finished`` and ``export`` are armed by the end of the execution, and outlive
    it; ``export`` is served by ``ExportQueue`` alone. ``place`` is armed by the store
    for the execution that is next to take a concurrency slot."""


class ConcurrencySlot(msgspec.Struct, frozen=True):
    """The claim of an execution to one of the slots of its concurrency key."""

    key: str

    limit: int
    """Number of slots of the key, as the playbook of this execution has it."""

    queued: bool = False
    """True while the execution waits for a slot, False once it holds one."""


NO_LABELS: Mapping[str, str] = MappingProxyType({})


class Summary(msgspec.Struct, frozen=True):
    """The line of an execution in a listing."""

    execution_id: str
    status: ExecutionStatus
    playbook: dict[str, JSON]
    started_at: str
    finished_at: str | None = None
    error: dict[str, JSON] | None = None

    parent_id: str | None = None
    """Execution that called this one; it decides the family of this execution."""

    forked_from: dict[str, JSON] | None = None

    concurrency: dict[str, JSON] | None = None
    """Concurrency key, if there is one; ``queued`` until a slot is free."""

    ignored_errors: int = 0
    """Number of errors that no rule matched."""

    not_reached: int = 0
    """Number of steps that no token reached, because no arc fired before them."""

    labels: dict[str, str] = {}
    """Labels of the execution, from its start on: stores find executions by them."""

    trigger: dict[str, JSON] | None = None
    """Trigger that started the execution: its ``name``, and the ``slot`` of a
    schedule."""


def summary_document(summary: Summary) -> dict[str, JSON]:
    """Return the line as ``noetl list --json`` and the API show it."""
    line: dict[str, JSON] = msgspec.to_builtins(summary)
    line["duration_ms"] = elapsed_ms(summary.started_at, summary.finished_at or "")
    return line


class Append(msgspec.Struct, frozen=True):
    """Events that a transition adds to the log of its execution."""

    after: int
    """Position of the log that the decision is based on; 0 begins an execution."""

    events: Sequence[Event]
    """New events; their ``seq`` continues at ``after + 1`` without a gap."""

    bodies: Sequence[bytes] | None = None
    """The same events, encoded, if the caller has encoded them already."""

    history: Sequence[bytes] = ()
    """Encoded events up to ``after`` that a new execution, a fork, begins with."""

    snapshot: bytes | None = None
    """State after the last event; replaces an earlier snapshot."""


class Reports(msgspec.Struct, frozen=True):
    """Reports of workers that a transition takes in."""

    leases: Sequence[Lease] = ()
    """Leases of the reporting workers; the store refuses one that is not held."""

    numbers: Mapping[str, int] = {}
    """Number of the last report of a command, by ``command_id``."""


class CommandChanges(msgspec.Struct, frozen=True):
    """Commands that a transition plans, hands out, ends and releases."""

    planned: Sequence[Command] = ()
    """Commands to offer. One that exists already is left as it is, unless it is in
    ``released``, too: then it is planned again for its new ``not_before``."""

    grant: Grant | None = None
    """Leases that some of the planned commands have from the start."""

    ended: Sequence[str] = ()
    """Ids of commands that are finished and will not be offered again."""

    released: Sequence[str] = ()
    """Ids of commands whose leases end, so that the commands are offered again."""


class TimerChanges(msgspec.Struct, frozen=True):
    """Timers that a transition arms and disarms."""

    armed: Sequence[Timer] = ()
    """Timers of this execution."""

    disarmed: Sequence[str] = ()
    """Ids of timers of this execution to delete."""

    relatives: Sequence[Timer] = ()
    """Timers of callers and called executions, which look at what has changed here.
    Skipped for an execution that has finished or does not exist."""


NO_REPORTS = Reports()
NO_COMMANDS = CommandChanges()
NO_TIMERS = TimerChanges()


class Transition(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that one decision changes: stored as a whole, or not at all."""

    execution_id: str

    log: Append
    """Position of the decision, and the events that follow it."""

    summary: Summary
    """Line of the execution after the events."""

    reports: Reports = NO_REPORTS
    """Reports that caused the transition, with the leases that fence it."""

    commands: CommandChanges = NO_COMMANDS
    timers: TimerChanges = NO_TIMERS

    slot: ConcurrencySlot | None = None
    """Slot that is taken or waited for; a finished execution gives it back. The store
    arms a ``place`` timer for the execution that is next to take a slot."""

    request_key: str | None = None
    """Key of the request that a new execution answers; unique among executions."""
