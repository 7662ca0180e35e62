"""Tools, and the results that they write in parts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import msgspec

from noetl.engine.tasks.outcome import Outcome, Stored
from noetl.ports.secrets import TaskPlace
from noetl.ports.task_logs import Level, Stream
from noetl.types import JSON


class Draft(Protocol):
    """A list of rows that is written to the result store, masked as results are."""

    size: int

    async def add(self, rows: Sequence[JSON]) -> None:
        """Append rows. Raises ``ToolError`` for rows that are not JSON, or forged."""
        ...

    async def keep(self) -> Stored:
        """Store the list, verified and durable, and return it."""
        ...

    def drop(self) -> None:
        """Discard the draft; no effect after ``keep``."""
        ...


class Drafts(Protocol):
    """Storage of results that are too large to return."""

    def open(self) -> Draft: ...

    def file(self) -> str:
        """Return the path of a new file, which the tool writes and passes to
        ``adopt``."""
        ...

    async def adopt(self, file: str, hint: str) -> Stored:
        """Store a file; a ``json`` file holds JSON lines, and becomes a list."""
        ...

    def stored(self, key: str) -> AbstractAsyncContextManager[str]:
        """Provide a file with an earlier result while entered.

        Raises ``ToolError`` on entry if the result is gone, damaged or of another
        execution.
        """
        ...


class Output(Protocol):
    """The log of one attempt: what the tool's work prints, while it prints it."""

    def write(self, stream: Stream, data: bytes) -> None:
        """Add bytes of a stream, cut anywhere; lines end with a line break."""
        ...

    def log(self, level: Level, text: str) -> None:
        """Add a message of one or more lines."""
        ...

    @property
    def is_full(self) -> bool:
        """Return whether the store is behind: the writer should pause."""
        ...

    def when_stored(self, act: Callable[[], None]) -> None:
        """Call ``act`` once, as soon as the output is not full."""
        ...


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt of one task: rendered inputs and effective knobs.

    ``drafts`` stores large results and reads earlier ones; without it the tool returns
    its whole result. ``output`` keeps what the work prints. ``traceparent`` is the W3C
    header that names this attempt as the caller.
    """

    kind: str
    inputs: Mapping[str, JSON]
    spec: Mapping[str, JSON]
    execution_id: str
    step: str
    task: str
    action_id: str
    attempt: int
    folder: str | None = None  # the playbook's folder, for modules and files
    drafts: Drafts | None = None
    output: Output | None = None
    traceparent: str | None = None

    @property
    def at(self) -> TaskPlace:
        """Return the position of the call in its playbook."""
        return TaskPlace(self.execution_id, self.step, self.task)


class Tool(Protocol):
    """The implementation of a task kind, without templates, policies, retries or
    events.

    An ``instant`` tool does not wait, so it cannot be stopped.
    """

    instant: bool

    def has_effect(self, call: ToolCall) -> bool:
        """Return whether a repetition may do harm: then the start is recorded first."""
        ...

    async def run(self, call: ToolCall) -> Outcome:
        """Make the call once. Raises ``ToolError``; cancellation stops the work for
        good."""
        ...

    async def close(self) -> None:
        """Release processes, sessions and pools."""
        ...
