"""What an execution is at a point of its log; only ``evolve`` changes it."""

from __future__ import annotations

from typing import Literal

import msgspec

from noetl.engine.concurrency import Concurrency
from noetl.engine.progress import Progress
from noetl.types import JSON

ExecutionStatus = Literal[
    "running", "waiting", "paused", "completed", "failed", "cancelled", "quarantined"
]


class Token(msgspec.Struct):
    """An envelope on its way to one step; ``event`` is the boundary that sent it."""

    id: str
    step: str
    args: dict[str, JSON]
    origin: str | None = None
    event: dict[str, JSON] | None = None


class LoopState(msgspec.Struct):
    """One loop instance: what is open and what was counted, never what is over.

    ``results`` holds small results until they are too large to travel in one event;
    then it is None, and they stay in the log alone. ``writers`` are the iterations
    that wrote a key of ctx, for the write-once rule of parallel loops.
    """

    iterator: str
    total: int
    items: JSON
    first_seq: int
    next: int = 0
    open: dict[int, Iteration] = msgspec.field(default_factory=dict)
    done: int = 0
    failed: int = 0
    error: dict[str, JSON] | None = None
    results: dict[int, JSON] | None = msgspec.field(default_factory=dict)
    results_size: int = 0


class Iteration(msgspec.Struct):
    """An open iteration: a pipeline, or the loop inside it."""

    scope: dict[str, JSON]
    progress: Progress | None = None
    loop: LoopState | None = None


class Run(msgspec.Struct):
    """One firing of a step. ``boundary`` is its end, until its arcs are judged, and
    ``outcomes`` those that they may name."""

    id: str
    step: str
    args: dict[str, JSON]
    has_arcs: bool
    tokens: list[str] = msgspec.field(default_factory=list)
    progress: Progress | None = None
    loop: LoopState | None = None
    boundary: dict[str, JSON] | None = None
    routed: bool = False
    ended: bool = False
    ctx_writers: dict[str, str] = msgspec.field(default_factory=dict)
    deadline: str | None = None
    outcomes: dict[str, JSON] = msgspec.field(default_factory=dict)


class State(msgspec.Struct):
    """The marking and everything beside it.

    ``parent`` is who called this execution, ``outer`` the iteration it was called
    from. ``suspended`` are the pipelines that wait; ``messages`` the signals that
    nobody has waited for yet; ``listeners`` the pipelines that react to events, each
    with those that came while it was busy. ``spilled`` says that some value is stored
    elsewhere. ``fork`` is whose events the log begins with, and how many of them.
    It is ``queued`` until it has a place of its ``concurrency`` key.
    """

    execution_id: str = ""
    status: ExecutionStatus = "running"
    seq: int = 0
    started_at: str = ""
    workload: dict[str, JSON] = msgspec.field(default_factory=dict)
    ctx: dict[str, JSON] = msgspec.field(default_factory=dict)
    tokens: dict[str, Token] = msgspec.field(default_factory=dict)
    joining: dict[str, dict[str, list[Token]]] = msgspec.field(default_factory=dict)
    late: dict[str, dict[str, int]] = msgspec.field(default_factory=dict)
    runs: dict[str, Run] = msgspec.field(default_factory=dict)
    token_count: int = 0
    run_count: int = 0
    failures: dict[str, dict[str, JSON]] = msgspec.field(default_factory=dict)
    cancelling: dict[str, JSON] | None = None
    error: dict[str, JSON] | None = None
    result: JSON = None
    result_of: str | None = None
    result_before: JSON = None
    finished: bool = False
    parent: dict[str, JSON] | None = None
    depth: int = 1
    trace_id: str = ""
    outer: dict[str, JSON] | None = None
    deadline: str | None = None
    paused_at: str | None = None
    suspended: dict[str, str] = msgspec.field(default_factory=dict)
    messages: list[dict[str, JSON]] = msgspec.field(default_factory=list)
    listeners: dict[str, list[dict[str, JSON]]] = msgspec.field(default_factory=dict)
    spilled: bool = False
    fork: dict[str, JSON] | None = None
    concurrency: Concurrency | None = None
    queued: dict[str, JSON] | None = None

    @property
    def began_at(self) -> str:
        """When the work began that this execution goes on with: what templates see."""
        return self.started_at if self.fork is None else self.fork["started_at"]
