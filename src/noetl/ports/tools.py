"""Tools at work, and results that they write while they come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import msgspec

from noetl.engine.outcome import Outcome, Stored
from noetl.ports.secrets import TaskPlace
from noetl.types import JSON


class Draft(Protocol):
    """A list of rows on its way into the result store, masked as results are."""

    size: int

    async def add(self, rows: Sequence[JSON]) -> None:
        """Raises ``ToolError`` for what is no JSON, or forged."""
        ...

    async def keep(self) -> Stored:
        """Store it: whole, verified and durable when this returns."""
        ...

    def drop(self) -> None:
        """Forget it; after ``keep`` there is nothing to forget."""
        ...


class Drafts(Protocol):
    """What a tool does with results that are too large to hand over."""

    def open(self) -> Draft: ...

    def file(self) -> str:
        """A new file, for who writes it by himself, to be adopted."""
        ...

    async def adopt(self, file: str, hint: str) -> Stored:
        """Store a file; one of ``json`` is JSON lines, and becomes a list."""
        ...

    def stored(self, key: str) -> AbstractAsyncContextManager[str]:
        """A file with an earlier result, for a while.

        Raises ``ToolError`` when it is entered: it is gone, damaged or another's.
        """
        ...


class ToolCall(msgspec.Struct, frozen=True, kw_only=True):
    """One attempt of one task: rendered inputs, effective knobs, nothing else.

    ``drafts`` takes large results, and has earlier ones; without it they must be
    handed over.
    """

    kind: str
    inputs: Mapping[str, JSON]
    spec: Mapping[str, JSON]
    execution_id: str
    step: str
    task: str
    action_id: str
    attempt: int
    folder: str | None = None  # the playbook's own folder, for modules and files
    drafts: Drafts | None = None

    @property
    def at(self) -> TaskPlace:
        """Where the call stands in its playbook."""
        return TaskPlace(self.execution_id, self.step, self.task)


class Tool(Protocol):
    """A kind at work. Knows no templates, policies, retries or events.

    One that is ``instant`` waits for nothing, so there is nothing to stop.
    """

    instant: bool

    def has_effect(self, call: ToolCall) -> bool:
        """Whether doing it twice may hurt: then its start is recorded first."""
        ...

    async def run(self, call: ToolCall) -> Outcome:
        """Do it once. Raises ``ToolError``; being cancelled stops the work for good."""
        ...

    async def close(self) -> None:
        """Give back processes, sessions and pools."""
        ...
