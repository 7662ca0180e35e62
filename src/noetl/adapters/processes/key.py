"""Which calls may share a process."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from noetl.adapters.processes.sandbox import Sandbox


class Key(NamedTuple):
    """What two calls must share to share a process."""

    execution_id: str
    folder: str | None
    memory: int | None
    disk: int | None = None
    sandbox: Sandbox | None = None
    shared: bool = False  # by all executions, for code that leaves nothing behind
    alone: int = 0  # a number of its own: the process serves this call and no other
