"""Exports: finished executions leave for other systems, at least once.

The queue of an export is a timer of its own for each execution, and not the timer
``finished`` of triggers: a receiver that is away holds no trigger up, the sweep reads
none of what waits for it, and each export has its own pace. There is no cursor over the
log, since numbers of executions are not in the order in which they end.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from typing import NamedTuple, Protocol

from noetl.engine.events import Event
from noetl.errors import NoetlError
from noetl.ports.task_logs import StoredChunk
from noetl.ports.transition import Summary, Timer

EXPORT_TIMER = "export:"
"""Beginning of the ids of timers of exports; the name of the export follows."""
LOGS_FOLLOW_S = 5.0
"""Seconds after the end of an execution for which the last task logs may follow."""


def export_timer(execution_id: str, name: str, now: float) -> Timer:
    """Return the timer by which an execution that ends waits for an export."""
    return Timer(execution_id, EXPORT_TIMER + name, now + LOGS_FOLLOW_S, "export")


class ExportFailed(NoetlError):
    """A receiver did not take a batch. ``refused`` says that it never will take it in
    this form, so that another batch may be taken."""

    def __init__(self, message: str, *, refused: bool = False) -> None:
        super().__init__(message)
        self.refused = refused


class ExportedExecution(Protocol):
    """An execution with its events and its task logs, read in parts."""

    @property
    def summary(self) -> Summary: ...

    def pages(self) -> AsyncIterator[Sequence[Event]]:
        """Iterate over all events in order, from the first one."""
        ...

    def logs(self) -> AsyncIterator[Sequence[StoredChunk]]:
        """Iterate over the task logs."""
        ...


class Export(Protocol):
    """A receiver of executions, named for settings and metrics.

    Taking an execution again changes nothing at the receiver: an event is identified by
    ``(execution_id, seq)``, and a span by ids that are derived from the execution.
    """

    @property
    def name(self) -> str: ...

    async def take(self, executions: Sequence[ExportedExecution]) -> int:
        """Deliver the executions and return the number of their events.

        Raises ``ExportFailed``: then some of them may have been taken.
        """
        ...

    async def close(self) -> None:
        """Close connections."""
        ...


class WaitingExports(NamedTuple):
    """The number of executions that wait for an export, and the one of them that began
    first."""

    waiting: int
    oldest: str


class ExportQueue(Protocol):
    """Finished executions that wait for an export: the commit that ends an execution
    adds it, as a timer of kind ``export``."""

    async def claim_exports(
        self, name: str, *, now: float, until: float, limit: int
    ) -> Sequence[str]:
        """Return executions that wait for the export, and keep them from other servers
        ``until`` that time."""
        ...

    async def postpone_exports(
        self, name: str, execution_ids: Sequence[str], *, until: float
    ) -> None:
        """Offer executions again at a time."""
        ...

    async def end_exports(self, name: str, execution_ids: Sequence[str]) -> None:
        """Remove executions from the queue: the receiver has them."""
        ...

    async def count_exports(self) -> Mapping[str, WaitingExports]:
        """Return how many executions wait, by the name of the export."""
        ...
