"""The envelope of every event, and the type that describes one event."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Generic, Literal, TypeAlias, TypeVar

import msgspec

from noetl.types import JSON

Source = Literal["server", "worker"]
Status = Literal["in_progress", "success", "error", "paused", "skipped"]
Entity = Literal["playbook", "workflow", "step", "task", "loop", "next"]

if TYPE_CHECKING:
    AnyPayload: TypeAlias = JSON
else:
    AnyPayload = dict[str, JSON]
"""A payload as the log holds it. At run time it is a plain dict; mypy accepts it as any
payload type that a reader names, so that no cast is needed."""

P = TypeVar("P")


class Event(msgspec.Struct, frozen=True):
    """A recorded fact.

    Everything that could differ on a second run (time, ids, rendered templates) is
    stored here when it is decided, so that folding the log needs nothing else.
    """

    event_id: str
    """Unique: `<execution_id>.<seq>`."""
    execution_id: str
    """The execution."""
    seq: int
    """Position in the log, from 1, without gaps. It defines the order, not the time."""
    timestamp: str
    """UTC, RFC 3339, microseconds."""
    source: Source
    """`server` for a decision, `worker` for a report."""
    name: str
    """The name of the event: one of those below."""
    entity_type: Entity
    """playbook, workflow, step, task, loop or next."""
    entity_id: str
    """The id of the execution, run, iteration, task or token."""
    parent_id: str | None
    """The execution for a step, the step run for everything inside a step."""
    status: Status
    """in_progress, success, error, paused or skipped."""
    step: str | None = None
    """Name of the step."""
    step_run_id: str | None = None
    """One firing of a step."""
    iteration_id: str | None = None
    """`<step_run_id>/<index>`, one more index for each inner loop."""
    task_run_id: str | None = None
    """One visit of a task; its retries share it."""
    task_label: str | None = None
    """Label of the task."""
    attempt: int | None = None
    """Number of the attempt, from 1."""
    action_id: str | None = None
    """Identifies one effect: the same for all its attempts and owners."""
    payload: AnyPayload = msgspec.field(default_factory=dict)
    """Members that are specific to the event: see below."""


class EventType(msgspec.Struct, Generic[P], frozen=True):
    """The description of all events with one name.

    ``payload`` is the type of the payload; the docstring of that type describes when
    the event is recorded. ``source`` and ``status`` are the usual values, ``sources``
    and ``statuses`` all values, where there are several.
    """

    name: str
    payload: type[P]
    entity: Entity
    source: Source
    status: Status
    sources: tuple[Source, ...] = ()
    statuses: tuple[Status, ...] = ()

    @property
    def sentence(self) -> str:
        """Return one sentence that describes when the event is recorded."""
        return (self.payload.__doc__ or "").partition("\n\n")[0].replace("\n    ", " ")


BOTH: tuple[Source, ...] = ("worker", "server")
"""A worker reports the event; for a run that needs no worker, the server records it."""
ENDS: tuple[Status, ...] = ("success", "error")


Caller: TypeAlias = Mapping[str, JSON] | None
"""``principal`` and ``address`` of the account that sent the request to a server; None
without a server, as on the command line."""


def unattributed(payload: Mapping[str, JSON]) -> dict[str, JSON]:
    """Return the payload without the account that sent the request."""
    return {name: value for name, value in payload.items() if name != "caller"}
